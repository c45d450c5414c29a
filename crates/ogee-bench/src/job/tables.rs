//! Rows of the tables, entity by entity, without their ids.
//!
//! Numbers of rows follow the real ones in the mean: 14.3 credits a title, 5.9 pieces of information, 1.8 keywords, one company.

use super::words::{
    COMPANIES, COMPANY_WORDS, COMPLETE, COUNTRIES, GENRES, INFO_TYPES, KEYWORD_WORDS, LINKS, PRODUCERS, ROLES,
    TITLE_WORDS, VOICES, WRITERS, names,
};
use super::world::{EPISODE, SERIES, Stream, Title, World, chance, many, one, random, weighted};
use crate::random::Random;
use crate::rows::Rows;
use crate::rows::Value::{Null, Number, Owned, Text};
use crate::ssb::MONTHS;

fn number(value: u64) -> crate::rows::Value<'static> {
    Number(value as i64)
}

/// The id of a name in a list of fixed contents.
fn id_in(names: &[&str], name: &str) -> u64 {
    names.iter().position(|known| *known == name).expect("a known name") as u64 + 1
}

fn role_id(role: &str) -> u64 {
    ROLES.iter().position(|(known, _)| *known == role).expect("a role") as u64 + 1
}

/// Soundex: a letter and up to three digits (`most` of them here) for its consonants.
fn soundex(text: &str, most: usize) -> Option<String> {
    let digit = |letter: char| match letter {
        'B' | 'F' | 'P' | 'V' => '1',
        'C' | 'G' | 'J' | 'K' | 'Q' | 'S' | 'X' | 'Z' => '2',
        'D' | 'T' => '3',
        'L' => '4',
        'M' | 'N' => '5',
        'R' => '6',
        _ => '0',
    };
    let mut letters = text.chars().map(|letter| letter.to_ascii_uppercase()).filter(char::is_ascii_uppercase);
    let first = letters.next()?;
    let mut code = String::from(first);
    let mut last = digit(first);
    for next in letters.map(digit) {
        if next != last && next != '0' && code.len() <= most {
            code.push(next);
        }
        last = next;
    }
    Some(code)
}

fn md5(random: &mut Random) -> String {
    format!("{:016x}{:016x}", random.next(), random.next())
}

/// `12 May 2006` in about that year.
fn day(random: &mut Random, year: i64) -> String {
    let late = i64::from(chance(random, 15.0));
    format!("{} {} {}", random.below(28) + 1, one(random, &MONTHS), year + late)
}

/// So many words.
fn words(random: &mut Random, from: u64, to: u64) -> String {
    let mut text = one(random, &TITLE_WORDS).to_owned();
    for _ in 0..from + random.below(to - from) {
        text.push(' ');
        text.push_str(one(random, &KEYWORD_WORDS));
    }
    text
}

pub fn title(world: &World, title: &Title, rows: &mut Rows) {
    let text = world.text(title);
    let mut random = random(Stream::TitleText, title.id | 1 << 40);
    let (mut series, mut season, mut episode) = (None, None, None);
    if title.kind == EPISODE {
        let found = (0..400).map(|_| random.below(world.titles.count) + 1).find(|id| world.title(*id).kind == SERIES);
        series = found.map(|id| id as i64);
        season = Some(random.below(12) as i64 + 1);
        episode = Some((random.fraction().powi(2) * 150.0) as i64 + 1);
    }
    let years =
        title.year.filter(|_| title.kind == SERIES).map(|year| format!("{year}-{}", year + random.below(8) as i64));
    rows.push([
        Owned(text.clone()),
        if chance(&mut random, 4.0) { Text("I") } else { Null },
        number(title.kind),
        title.year.into(),
        Null,
        soundex(&text, 4).into(),
        series.into(),
        season.into(),
        episode.into(),
        years.into(),
        Owned(md5(&mut random)),
    ]);
}

pub fn cast_info(world: &World, title: &Title, rows: &mut Rows) {
    let mut random = random(Stream::CastInfo, title.id);
    let (animated, japanese) = (title.has_genre("Animation"), title.country().0 == "[jp]");
    for order in 0..many(&mut random, title.rank, 17.5, 0.64, 1500) {
        let role = weighted(&mut random, ROLES.iter().map(|role| role.1));
        let gender = match ROLES[role].0 {
            "actor" => Some("m"),
            "actress" => Some("f"),
            _ => None,
        };
        let acts = gender.is_some();
        let note = match ROLES[role].0 {
            "actor" | "actress" if animated && chance(&mut random, 70.0) => {
                let weights = if japanese { [30, 40, 5, 10] } else { [75, 8, 8, 4] };
                Some(VOICES[weighted(&mut random, weights.into_iter())].to_owned())
            }
            "actor" | "actress" => match random.below(1000) {
                0..120 => Some("(uncredited)".to_owned()),
                120..190 => Some(format!("(as {})", one(&mut random, names(title.country().4).0))),
                190..205 => Some("(voice)".to_owned()),
                205..209 => Some("(voice) (uncredited)".to_owned()),
                209..212 => Some("(producer)".to_owned()),
                212..235 => Some("(archive footage)".to_owned()),
                _ => None,
            },
            "producer" if chance(&mut random, 85.0) => {
                Some(PRODUCERS[weighted(&mut random, [40, 25, 15, 12, 8].into_iter())].to_owned())
            }
            "writer" if chance(&mut random, 80.0) => {
                Some(WRITERS[weighted(&mut random, [28, 24, 18, 10, 6, 4, 4, 6].into_iter())].to_owned())
            }
            "guest" => Some("(guest)".to_owned()),
            _ => None,
        };
        let person = world.people.forth(world.worker(&mut random, title, gender)) + 1;
        let plays = acts && chance(&mut random, 62.0);
        let character = plays.then(|| world.characters.forth(world.role(&mut random)) as i64 + 1);
        rows.push([
            number(person),
            number(title.id),
            character.into(),
            note.into(),
            if acts && chance(&mut random, 55.0) { number(order + 1) } else { Null },
            number(role as u64 + 1),
        ]);
    }
    for (name, role, character, note) in title.famous.iter().flat_map(|famous| famous.parts) {
        let place = character.map(|name| world.known_characters.iter().position(|known| *known == name));
        let character = place.flatten().map(|place| world.characters.forth(place as u64) as i64 + 1);
        rows.push([
            number(world.people.forth(world.known_person(name)) + 1),
            number(title.id),
            character.into(),
            (*note).into(),
            number(1),
            number(role_id(role)),
        ]);
    }
}

pub fn movie_info(_: &World, title: &Title, rows: &mut Rows) {
    let mut random = random(Stream::MovieInfo, title.id);
    let random = &mut random;
    let known = if title.rank < 0.4 { 95.0 } else { 55.0 };
    let country = title.country();
    let year = title.year.unwrap_or(1990);
    let mut push = |name: &str, info: String, note: Option<&str>| {
        rows.push([number(title.id), number(id_in(&INFO_TYPES, name)), Owned(info), note.into()]);
    };
    if chance(random, known * 0.8) {
        let minutes = random.below(100) + 20;
        push(
            "runtimes",
            if chance(random, 30.0) { format!("{}:{minutes}", country.1) } else { minutes.to_string() },
            None,
        );
    }
    if chance(random, known * 0.8) {
        push("color info", if year > 1960 { "Color" } else { "Black and White" }.to_owned(), None);
    }
    if chance(random, known) {
        for genre in &title.genres {
            push("genres", GENRES[*genre].0.to_owned(), None);
        }
    }
    if chance(random, known * 0.9) {
        push("languages", country.2.to_owned(), None);
        if chance(random, 12.0) {
            push("languages", one(random, &COUNTRIES).2.to_owned(), None);
        }
    }
    if chance(random, known) {
        push("countries", country.1.to_owned(), None);
        if chance(random, 14.0) {
            push("countries", one(random, &COUNTRIES).1.to_owned(), None);
        }
    }
    for at in 0..many(random, title.rank, 1.1, 0.65, 80) {
        let place = if at == 0 { country.1 } else { COUNTRIES[weighted(random, COUNTRIES.iter().map(|c| c.3))].1 };
        let note = match random.below(100) {
            0..4 if year > 1990 => Some("(internet)"),
            4..12 => Some("(premiere)"),
            12..20 => Some("(limited)"),
            20..24 => Some("(Cannes Film Festival)"),
            _ => None,
        };
        push("release dates", format!("{place}:{}", day(random, year)), note);
    }
    for _ in 0..many(random, title.rank, 0.9, 0.6, 80) {
        match random.below(4) {
            0 => push(
                "certificates",
                format!("{}:{}", country.1, one(random, &["PG", "R", "12", "15", "18", "(Banned)"])),
                None,
            ),
            1 => push("sound mix", one(random, &["Mono", "Stereo", "Dolby Digital", "DTS", "Silent"]).to_owned(), None),
            2 => push(
                "tech info",
                one(random, &["RAT:1.85 : 1", "RAT:2.35 : 1", "PFM:35 mm", "OFM:35 mm", "PCS:Super 35"]).to_owned(),
                None,
            ),
            _ => push("locations", format!("{}, {}", words(random, 1, 3), country.1), None),
        }
    }
    for _ in 0..many(random, title.rank, 0.9, 0.75, 400) {
        let kind =
            one(random, &["trivia", "goofs", "quotes", "soundtrack", "plot", "taglines", "crazy credits", "mpaa"]);
        let note = chance(random, 10.0).then(|| one(random, &["Anonymous", "The Editors", "A. Viewer"]));
        push(kind, words(random, 5, 25), note);
    }
    if title.kind != EPISODE && chance(random, if title.rank < 0.15 { 45.0 } else { 4.0 }) {
        push("budget", format!("${},000", random.below(90_000) + 10), None);
    }
    for (kind, info, note) in title.famous.iter().flat_map(|famous| famous.info) {
        push(kind, (*info).to_owned(), *note);
    }
}

pub fn movie_info_idx(_: &World, title: &Title, rows: &mut Rows) {
    let mut random = random(Stream::MovieInfoIdx, title.id);
    let mut push = |name: &str, info: String| {
        rows.push([number(title.id), number(id_in(&INFO_TYPES, name)), Owned(info), Null]);
    };
    if title.rank < 0.19 {
        let distribution = (0..10).map(|_| one(&mut random, &['.', '0', '0', '1', '2', '3'])).collect();
        push("votes distribution", distribution);
        push("votes", ((5.0 * title.rank.powf(-0.95)) as u64 + random.below(9) + 5).to_string());
        push("rating", format!("{:.1}", title.rating));
    }
    if let Some(rank) = title.top {
        push("top 250 rank", rank.to_string());
    }
    if let Some(rank) = title.famous.and_then(|famous| famous.bottom) {
        push("bottom 10 rank", rank.to_string());
    }
}

pub fn movie_keyword(world: &World, title: &Title, rows: &mut Rows) {
    let mut random = random(Stream::MovieKeyword, title.id);
    let known = |name: &str| world.known_keywords.iter().position(|known| *known == name).expect("a keyword") as u64;
    let mut places: Vec<u64> =
        title.famous.iter().flat_map(|famous| famous.keywords).map(|keyword| known(keyword)).collect();
    if title.sequel {
        places.push(known("sequel"));
    }
    // A property of the title, not more frequent where much is said about it.
    if chance(&mut random, if title.rank < 0.2 { 4.0 } else { 1.1 }) {
        places.push(known("character-name-in-title"));
    }
    for _ in 0..many(&mut random, title.rank, 4.4, 0.88, 300) {
        let place = world.theme(&mut random, title);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    for place in places {
        rows.push([number(title.id), number(world.keywords.forth(place) + 1)]);
    }
}

pub fn movie_companies(world: &World, title: &Title, rows: &mut Rows) {
    let mut random = random(Stream::MovieCompanies, title.id);
    let year = title.year.unwrap_or(1990);
    for _ in 0..many(&mut random, title.rank, 1.3, 0.68, 90) {
        let firm = world.firm(&mut random, title);
        let distributes = random.below(2) == 0;
        let note = if distributes {
            let place = if chance(&mut random, 55.0) {
                title.country
            } else {
                weighted(&mut random, COUNTRIES.iter().map(|c| c.3))
            };
            let place = if chance(&mut random, 10.0) { "worldwide" } else { COUNTRIES[place].1 };
            let medium = one(
                &mut random,
                &["(theatrical)", "(DVD)", "(VHS)", "(TV)", "(Blu-ray)", "(DVD) (Blu-ray)", "(all media)"],
            );
            match random.below(10) {
                0 => None,
                1 => Some(format!("({place})")),
                _ => Some(format!("({}) ({place}) {medium}", year + random.below(7) as i64 - 2)),
            }
        } else {
            match random.below(1000) {
                0..50 => Some("(co-production)".to_owned()),
                50..110 => Some("(presents)".to_owned()),
                110..170 => Some("(in association with)".to_owned()),
                170..200 => Some(format!("(as {} Film)", one(&mut random, &TITLE_WORDS))),
                200..210 => Some("(as Metro-Goldwyn-Mayer Pictures)".to_owned()),
                210..216 => Some(format!("({}) ({}) (theatrical)", year, title.country().1)),
                216..222 => Some(format!("({}) (France) (theatrical)", year)),
                222..226 => Some("(1994) (USA) (VHS)".to_owned()),
                226..240 => Some(format!("({}) (USA)", year)),
                _ => None,
            }
        };
        rows.push([
            number(title.id),
            number(world.companies.forth(firm) + 1),
            number(2 - u64::from(distributes)),
            note.into(),
        ]);
    }
    for (name, kind, note) in title.famous.iter().flat_map(|famous| famous.companies) {
        let place = COMPANIES.iter().position(|company| company.0 == *name).expect("a known company");
        let kind = id_in(&super::words::COMPANY_TYPES, kind);
        rows.push([number(title.id), number(world.companies.forth(place as u64) + 1), number(kind), (*note).into()]);
    }
}

pub fn aka_title(world: &World, title: &Title, rows: &mut Rows) {
    let mut random = random(Stream::AkaTitle, title.id);
    for _ in 0..many(&mut random, title.rank, 0.15, 0.7, 30) {
        let place = one(&mut random, &COUNTRIES).1;
        let text = match random.below(3) {
            0 => format!("{}, {}", world.text(title), one(&mut random, &TITLE_WORDS)),
            1 => format!("{} {}", one(&mut random, &["Das", "Le", "La", "El"]), one(&mut random, &TITLE_WORDS)),
            _ => words(&mut random, 1, 3),
        };
        let code = soundex(&text, 4);
        rows.push([
            number(title.id),
            Owned(text),
            Null,
            number(title.kind),
            title.year.into(),
            code.into(),
            Null,
            Null,
            Null,
            if chance(&mut random, 80.0) { Owned(format!("({place})")) } else { Null },
            Owned(md5(&mut random)),
        ]);
    }
}

pub fn complete_cast(_: &World, title: &Title, rows: &mut Rows) {
    let mut random = random(Stream::CompleteCast, title.id);
    let listed = title.famous.map_or(&[][..], |famous| famous.complete);
    for (subject, status) in listed {
        rows.push([number(title.id), number(id_in(&COMPLETE, subject)), number(id_in(&COMPLETE, status))]);
    }
    let percent = if title.rank < 0.08 { 18.0 } else { 2.2 };
    for subject in ["cast", "crew"] {
        if listed.is_empty() && chance(&mut random, percent) {
            let status = one(&mut random, &["complete", "complete+verified", "complete+verified"]);
            rows.push([number(title.id), number(id_in(&COMPLETE, subject)), number(id_in(&COMPLETE, status))]);
        }
    }
}

pub fn movie_link(world: &World, title: &Title, rows: &mut Rows) {
    let mut random = random(Stream::MovieLink, title.id);
    for (link, other) in title.famous.iter().flat_map(|famous| famous.links) {
        rows.push([number(title.id), number(world.famous_id(other)), number(id_in(&LINKS, link))]);
    }
    let mut count = many(&mut random, title.rank, 0.011, 0.75, 40);
    count += u64::from(title.sequel && title.rank < 0.3 && chance(&mut random, 60.0));
    for at in 0..count {
        let kind = if title.sequel && at == 0 {
            one(&mut random, &["follows", "follows", "followed by"])
        } else {
            LINKS[weighted(&mut random, [6, 6, 4, 4, 22, 22, 4, 4, 9, 9, 2, 2, 2, 1, 1, 1, 1, 1].into_iter())]
        };
        // Popular titles of the same kind are linked to: the best of five.
        let kin = |id: &u64| world.title(*id).kind == title.kind && *id != title.id;
        let mut best: Option<Title> = None;
        for _ in 0..5 {
            let found = (0..300).map(|_| random.below(world.titles.count) + 1).find(kin);
            let found = found.map(|id| world.title(id));
            if found.as_ref().map_or(2.0, |found| found.rank) < best.as_ref().map_or(2.0, |best| best.rank) {
                best = found;
            }
        }
        if let Some(other) = best {
            rows.push([number(title.id), number(other.id), number(id_in(&LINKS, kind))]);
        }
    }
}

pub fn name(world: &World, place: u64, rows: &mut Rows) {
    let person = world.person(place);
    let mut random = random(Stream::Person, place | 1 << 40);
    let (family, given) = person.name.split_once(", ").unwrap_or((&person.name, ""));
    rows.push([
        Text(&person.name),
        if chance(&mut random, 20.0) { Text(one(&mut random, &["I", "II", "III", "IV", "V"])) } else { Null },
        Null,
        person.gender.into(),
        soundex(&person.name, 4).into(),
        soundex(&format!("{given} {family}"), 4).into(),
        soundex(family, 4).into(),
        Owned(md5(&mut random)),
    ]);
}

/// The famous are as well known as few others.
fn fame(world: &World, place: u64) -> f64 {
    let person = world.person(place);
    if (place as usize) < super::famous::people().len() { 0.0005 } else { person.rank }
}

pub fn aka_name(world: &World, place: u64, rows: &mut Rows) {
    let mut random = random(Stream::AkaName, place);
    for _ in 0..many(&mut random, fame(world, place), 0.22, 0.5, 12) {
        let person = world.person(place);
        let (family, given) = person.name.split_once(", ").unwrap_or((&person.name, ""));
        let (women, men, families) = names(COUNTRIES[random.below(16) as usize].4);
        let text = match random.below(4) {
            0 => format!("{family}, {}.", given.chars().next().unwrap_or('X')),
            1 => format!("{family}, {given} {}", one(&mut random, men)),
            2 => format!("{}, {given}", one(&mut random, families)),
            _ => one(&mut random, women).to_owned(),
        };
        let (code, plain) = (soundex(&text, 4), soundex(given, 4));
        rows.push([
            number(person.id),
            Owned(text),
            Null,
            code.into(),
            plain.into(),
            soundex(family, 4).into(),
            Owned(md5(&mut random)),
        ]);
    }
}

pub fn person_info(world: &World, place: u64, rows: &mut Rows) {
    const AUTHORS: [&str; 8] = [
        "Volker Boehm",
        "Anonymous",
        "A. Nonymous",
        "Tony Fontana",
        "Jim Beaver",
        "Steve Shelokhonov",
        "Bob Taylor",
        "Mara Lind",
    ];
    let mut random = random(Stream::PersonInfo, place);
    let known = (place as usize) < super::famous::people().len();
    let mut push = |name: &str, info: String, note: Option<&str>| {
        rows.push([number(world.people.forth(place) + 1), number(id_in(&INFO_TYPES, name)), Owned(info), note.into()]);
    };
    if known {
        push("height", "5' 7\"".to_owned(), None);
        push("mini biography", words(&mut random, 15, 60), Some(AUTHORS[0]));
        push("trivia", words(&mut random, 5, 20), None);
    }
    for _ in 0..many(&mut random, fame(world, place), 0.72, 0.5, 60) {
        match weighted(&mut random, [20, 16, 10, 9, 17, 10, 5, 6, 4, 3].into_iter()) {
            0 => push("birth date", day(&mut random, 1950), None),
            1 => push("birth notes", format!("{}, {}", words(&mut random, 0, 2), one(&mut random, &COUNTRIES).1), None),
            2 => push("height", format!("{} cm", random.below(60) + 145), None),
            3 => push(
                "mini biography",
                words(&mut random, 15, 60),
                Some(AUTHORS[weighted(&mut random, [10, 30, 5, 5, 5, 5, 5, 5].into_iter())]),
            ),
            4 => push("trivia", words(&mut random, 5, 20), None),
            5 => push("other works", words(&mut random, 5, 20), None),
            6 => push("spouse", words(&mut random, 2, 5), None),
            7 => push("birth name", world.person(place).name, None),
            8 => push("quotes", words(&mut random, 5, 20), None),
            _ => push("death date", day(&mut random, 1990), None),
        }
    }
}

pub fn char_name(world: &World, place: u64, rows: &mut Rows) {
    let text = world.character(place);
    let mut random = random(Stream::Character, place | 1 << 40);
    let (code, surname) = (soundex(&text, 4), text.rsplit(' ').next().and_then(|last| soundex(last, 4)));
    rows.push([Owned(text), Null, Null, code.into(), surname.into(), Owned(md5(&mut random))]);
}

pub fn company_name(world: &World, place: u64, rows: &mut Rows) {
    let mut random = random(Stream::Company, place);
    let country = &COUNTRIES[world.firm_country(place)];
    let text = match COMPANIES.get(place as usize) {
        Some((name, _)) => (*name).to_owned(),
        None => {
            let first = one(&mut random, &TITLE_WORDS);
            let second = one(&mut random, names(country.4).2);
            let last = COMPANY_WORDS[weighted(&mut random, COMPANY_WORDS.iter().map(|word| word.1))].0;
            format!("{first} {second} {last}")
        }
    };
    let (code, short) = (soundex(&text, 4), text.split(' ').next().and_then(|first| soundex(first, 4)));
    let known = (place as usize) < COMPANIES.len() || chance(&mut random, 97.0);
    rows.push([
        Owned(text),
        if known { Text(country.0) } else { Null },
        Null,
        code.into(),
        short.into(),
        Owned(md5(&mut random)),
    ]);
}

pub fn keyword(world: &World, place: u64, rows: &mut Rows) {
    let text = world.keyword(place);
    let code = soundex(&text, 4);
    rows.push([Owned(text), code.into()]);
}
