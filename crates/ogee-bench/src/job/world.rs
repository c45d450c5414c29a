//! The made world behind the tables: who and what there is, as functions of a number, so that all tables agree without any being kept.
//!
//! A title has a *rank* in (0, 1]; what is said about it grows with a power of 1 / rank, in every table, so that joins over titles meet long chains
//! on both sides. People work in clusters of a country and a time.

use super::famous::{FAMOUS, Famous, people};
use super::words::{
    ADJECTIVES, COMPANIES, COUNTRIES, Country, GENRES, KEYWORD_WORDS, KEYWORDS, KINDS, Style, TITLE_WORDS, names,
};
use crate::random::{Random, Zipf};

/// Rows of the real tables' entities.
const TITLES: f64 = 2_528_312.0;
const PEOPLE: f64 = 4_167_491.0;
const CHARACTERS: f64 = 3_140_339.0;
const COMPANY_NAMES: f64 = 234_997.0;
const KEYWORD_NAMES: f64 = 134_170.0;

/// The top 250.
const TOP: u64 = 250;

/// Places of work: 16 groups of countries in 4 times.
const CLUSTERS: u64 = 64;
/// Genders repeat after so many people of a cluster: 8 men, 5 women, the others not known.
const GENDERS: u64 = 20;
const MEN: u64 = 8;
const WOMEN: u64 = 5;

/// Sequences of random numbers that belong to an entity, apart from each other.
#[derive(Clone, Copy)]
pub enum Stream {
    Title,
    TitleText,
    CastInfo,
    MovieInfo,
    MovieInfoIdx,
    MovieKeyword,
    MovieCompanies,
    AkaTitle,
    CompleteCast,
    MovieLink,
    Person,
    AkaName,
    PersonInfo,
    Character,
    Company,
}

/// The random numbers of one entity for one purpose.
pub fn random(stream: Stream, number: u64) -> Random {
    Random::new(Random::new(number | (stream as u64 + 1) << 48).next())
}

/// True in `percent` of a hundred cases.
pub fn chance(random: &mut Random, percent: f64) -> bool {
    random.fraction() * 100.0 < percent
}

/// One of several.
pub fn one<T: Copy>(random: &mut Random, among: &[T]) -> T {
    among[random.below(among.len() as u64) as usize]
}

/// One of several with weights: its place.
pub fn weighted(random: &mut Random, weights: impl Iterator<Item = u64> + Clone) -> usize {
    let mut left = random.below(weights.clone().sum());
    weights
        .enumerate()
        .find_map(|(at, weight)| {
            let here = left < weight;
            left = left.saturating_sub(weight);
            here.then_some(at)
        })
        .expect("the draw is below the sum")
}

/// How many rows a title or person of this rank has where the mean is `mean`: a power law, cut at `most`.
pub fn many(random: &mut Random, rank: f64, mean: f64, exponent: f64, most: u64) -> u64 {
    let expected = mean * (1.0 - exponent) * rank.powf(-exponent);
    ((expected + random.fraction()) as u64).min(most)
}

/// A bijection of `0..count` whose inverse is known.
pub struct Permutation {
    pub count: u64,
    factor: u64,
    back: u64,
}

impl Permutation {
    fn new(count: u64) -> Self {
        let gcd = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        // Neighbours land apart by the golden ratio of the whole.
        let mut factor = (count as f64 * 0.618_033_988) as u64 + 1;
        while gcd(factor, count) != 1 {
            factor += 1;
        }
        // Extended Euclid: `back` times `factor` is 1 modulo `count`.
        let (mut r, mut next_r, mut t, mut next_t) = (i128::from(count), i128::from(factor), 0_i128, 1_i128);
        while next_r != 0 {
            let quotient = r / next_r;
            (r, next_r) = (next_r, r - quotient * next_r);
            (t, next_t) = (next_t, t - quotient * next_t);
        }
        Self { count, factor, back: t.rem_euclid(i128::from(count)) as u64 }
    }

    /// Where `place` goes; ids are one more.
    pub fn forth(&self, place: u64) -> u64 {
        (u128::from(place) * u128::from(self.factor) % u128::from(self.count)) as u64
    }

    /// What goes to `place`.
    pub fn back(&self, place: u64) -> u64 {
        (u128::from(place) * u128::from(self.back) % u128::from(self.count)) as u64
    }
}

/// A title, as far as other tables follow it.
pub struct Title {
    pub id: u64,
    /// Id of `kind_type`.
    pub kind: u64,
    pub year: Option<i64>,
    /// Place among the countries.
    pub country: usize,
    /// Places among the genres.
    pub genres: Vec<usize>,
    pub rank: f64,
    pub rating: f64,
    pub sequel: bool,
    /// Rank among the top 250.
    pub top: Option<u64>,
    pub famous: Option<&'static Famous>,
}

pub const MOVIE: u64 = 1;
pub const SERIES: u64 = 2;
pub const EPISODE: u64 = 7;

impl Title {
    pub fn country(&self) -> &'static Country {
        &COUNTRIES[self.country]
    }

    pub fn has_genre(&self, name: &str) -> bool {
        self.genres.iter().any(|genre| GENRES[*genre].0 == name)
    }
}

/// A person.
pub struct Person {
    pub id: u64,
    pub name: String,
    pub gender: Option<&'static str>,
    /// In (0, 1].
    pub rank: f64,
}

/// See the module.
pub struct World {
    pub titles: Permutation,
    pub people: Permutation,
    pub characters: Permutation,
    pub companies: Permutation,
    pub keywords: Permutation,
    known_people: Vec<(&'static str, &'static str)>,
    /// Those that queries look for, at the first places.
    pub known_keywords: Vec<&'static str>,
    /// Characters that famous titles have, after the usual ones.
    pub known_characters: Vec<&'static str>,
    workers: Zipf,
    roles: Zipf,
    themes: Zipf,
    firms: Vec<Zipf>,
    /// First place of each country's companies.
    firm_starts: Vec<u64>,
}

impl World {
    /// A world of `scale` times the size of the Internet Movie Database in 2013.
    pub fn new(scale: f64) -> Self {
        // Everything that a query asks for has room.
        let size = |real: f64, least: u64| Permutation::new(((real * scale) as u64).max(least));
        let (titles, people_all, characters) = (size(TITLES, 5_000), size(PEOPLE, 10_000), size(CHARACTERS, 1_000));
        let (companies, keywords) = (size(COMPANY_NAMES, 1_000), size(KEYWORD_NAMES, 1_000));
        let mut known_keywords: Vec<&str> = Vec::new();
        for keyword in KEYWORDS.iter().chain(GENRES.iter().flat_map(|genre| genre.3)) {
            if !known_keywords.contains(keyword) {
                known_keywords.push(keyword);
            }
        }
        let mut known_characters = super::words::CHARACTERS.to_vec();
        for character in FAMOUS.iter().flat_map(|famous| famous.parts).filter_map(|part| part.2) {
            if !known_characters.contains(&character) {
                known_characters.push(character);
            }
        }
        let others = companies.count - COMPANIES.len() as u64;
        let total: u64 = COUNTRIES.iter().map(|country| country.3).sum();
        let mut firm_starts = vec![COMPANIES.len() as u64];
        let mut sum = 0;
        for country in &COUNTRIES {
            sum += country.3;
            firm_starts.push(COMPANIES.len() as u64 + others * sum / total);
        }
        let firms = firm_starts.windows(2).map(|ends| Zipf::new((ends[1] - ends[0]).max(1), 0.9)).collect();
        Self {
            workers: Zipf::new((people_all.count / CLUSTERS).saturating_sub(2 * GENDERS).max(1), 0.6),
            roles: Zipf::new(characters.count, 0.75),
            themes: Zipf::new(keywords.count, 0.85),
            titles,
            people: people_all,
            characters,
            companies,
            keywords,
            known_people: people(),
            known_keywords,
            known_characters,
            firms,
            firm_starts,
        }
    }

    /// Famous titles are this far apart, from the first on.
    fn stride(&self) -> u64 {
        self.titles.count / (FAMOUS.len() as u64 + 1)
    }

    fn famous(&self, id: u64) -> Option<&'static Famous> {
        let at = (id / self.stride()).checked_sub(1)?;
        FAMOUS.get(at as usize).filter(|_| id.is_multiple_of(self.stride()))
    }

    /// The id of a famous title.
    pub fn famous_id(&self, title: &str) -> u64 {
        let at = FAMOUS.iter().position(|famous| famous.title == title).expect("links are to famous titles");
        (at as u64 + 1) * self.stride()
    }

    /// The title with this id, from 1.
    pub fn title(&self, id: u64) -> Title {
        let mut random = random(Stream::Title, id);
        let kind = weighted(&mut random, [262, 36, 40, 47, 4, 6, 605].into_iter()) as u64 + 1;
        let u = 1.0 - random.fraction();
        // An episode is never among the most popular.
        let mut rank = if kind == EPISODE { 0.04 + 0.96 * u } else { u };
        let year = 2015 - (125.0 * random.fraction().powf(2.6)) as i64;
        let mut title = Title {
            id,
            kind,
            year: (!chance(&mut random, 3.0)).then_some(year),
            country: weighted(&mut random, COUNTRIES.iter().map(|country| country.3)),
            genres: Vec::new(),
            rank,
            rating: 0.0,
            sequel: kind != EPISODE && chance(&mut random, if rank < 0.2 { 9.0 } else { 1.0 }),
            top: None,
            famous: self.famous(id),
        };
        for _ in 0..=random.below(3) {
            let genre = weighted(&mut random, GENRES.iter().map(|genre| genre.1));
            if !title.genres.contains(&genre) {
                title.genres.push(genre);
            }
        }
        let spread = (0..3).map(|_| random.fraction()).sum::<f64>() - 1.5;
        title.rating = (6.4 + 2.6 * spread - if title.has_genre("Horror") { 1.0 } else { 0.0 }).clamp(1.1, 9.8);
        let apart = self.titles.count / TOP;
        if id % apart == apart / 2 && id / apart < TOP {
            rank = 0.01 * u;
            title.top = Some(id / apart + 1);
            title = Title { kind: MOVIE, rating: 9.2 - (id / apart) as f64 / 200.0, rank, ..title };
        }
        if let Some(famous) = title.famous {
            let place = |name: &&str| GENRES.iter().position(|genre| genre.0 == *name).expect("a genre");
            title = Title {
                kind: KINDS.iter().position(|kind| *kind == famous.kind).expect("a kind") as u64 + 1,
                year: Some(famous.year),
                country: famous.country,
                genres: famous.genres.iter().map(place).collect(),
                rank: 0.002,
                sequel: false,
                rating: famous.rating.parse().expect("a rating"),
                top: None,
                ..title
            };
        }
        title
    }

    /// What a title is called.
    pub fn text(&self, title: &Title) -> String {
        if let Some(famous) = title.famous {
            return famous.title.to_owned();
        }
        let mut random = random(Stream::TitleText, title.id);
        let genre = title.genres.first().copied().unwrap_or_default();
        let own = one(&mut random, GENRES[genre].2);
        let word = one(&mut random, &TITLE_WORDS);
        let adjective = one(&mut random, &ADJECTIVES);
        let text = match random.below(10) {
            0 if title.kind == EPISODE => format!("Episode #{}.{}", random.below(9) + 1, random.below(120) + 1),
            0 | 1 => format!("The {adjective} {own}"),
            2 | 3 => format!("{own} of the {word}"),
            4 => format!("{adjective} {word}"),
            5 => format!("{word} and {own}"),
            6 => format!("{own} {}", random.below(99) + 2),
            7 => format!("A {word} for {}", one(&mut random, names(title.country().4).0)),
            8 => format!("{}'s {adjective} {word}", one(&mut random, names(title.country().4).1)),
            _ => format!("{own}: The {adjective} {}", one(&mut random, &TITLE_WORDS)),
        };
        if title.sequel { format!("{text} {}", one(&mut random, &["2", "II", "3", "III", "Part 2"])) } else { text }
    }

    /// Someone who works at a title's place and time, in three of four cases, of the gender asked for. Gives the place.
    pub fn worker(&self, random: &mut Random, title: &Title, gender: Option<&'static str>) -> u64 {
        let decade = title.year.map_or(0, |year| (year - 1890).max(0) as u64 / 10);
        let local = title.country.min(15) as u64 * 4 + decade % 4;
        let cluster = if chance(random, 75.0) { local } else { random.below(CLUSTERS) };
        // The first are kept for the famous.
        let drawn = GENDERS + self.workers.draw(random) - 1;
        let slot = match gender {
            Some("m") => random.below(MEN),
            Some(_) => MEN + random.below(WOMEN),
            None => random.below(GENDERS),
        };
        let place = (drawn / GENDERS * GENDERS + slot) * CLUSTERS + cluster;
        if place < self.people.count { place } else { GENDERS * CLUSTERS + slot * CLUSTERS + cluster }
    }

    /// The place of a known person.
    pub fn known_person(&self, name: &str) -> u64 {
        self.known_people.iter().position(|known| known.0 == name).expect("a known person") as u64
    }

    /// The person at a place.
    pub fn person(&self, place: u64) -> Person {
        let id = self.people.forth(place) + 1;
        let rank = (place + 1) as f64 / self.people.count as f64;
        if let Some((name, gender)) = self.known_people.get(place as usize) {
            return Person { id, name: (*name).to_owned(), gender: Some(gender), rank };
        }
        let gender = match place / CLUSTERS % GENDERS {
            slot if slot < MEN => Some("m"),
            slot if slot < MEN + WOMEN => Some("f"),
            _ => None,
        };
        let country = (place % CLUSTERS / 4) as usize;
        let mut random = random(Stream::Person, place);
        let name = person_name(&mut random, COUNTRIES[country].4, gender);
        Person { id, name, gender, rank }
    }

    /// The place of a character that someone plays.
    pub fn role(&self, random: &mut Random) -> u64 {
        let usual = super::words::CHARACTERS.len() as u64;
        let place = self.roles.draw(random) - 1;
        // Those of famous titles stay there.
        let kept = usual..self.known_characters.len() as u64;
        if kept.contains(&place) { place % usual } else { place }
    }

    /// The name of the character at a place.
    pub fn character(&self, place: u64) -> String {
        if let Some(known) = self.known_characters.get(place as usize) {
            return (*known).to_owned();
        }
        let mut random = random(Stream::Character, place);
        let style = COUNTRIES[random.below(16) as usize].4;
        let (women, men, families) = names(style);
        let given = if random.below(2) == 0 { women } else { men };
        match random.below(8) {
            0 => format!(
                "{} {}",
                one(&mut random, &["Mr.", "Mrs.", "Dr.", "Inspector", "Captain"]),
                one(&mut random, families)
            ),
            1 => format!("{} #{}", one(&mut random, &["Policeman", "Woman", "Guard", "Dancer"]), random.below(90) + 1),
            2 => one(&mut random, given).to_owned(),
            3 => format!("{} the {}man", one(&mut random, men), one(&mut random, &["milk", "fisher", "post", "door"])),
            _ => {
                let given = one(&mut random, given);
                format!("{given} {}", family_name(&mut random, families))
            }
        }
    }

    /// The place of a keyword of a title; its genres and what it is decide half of them.
    pub fn theme(&self, random: &mut Random, title: &Title) -> u64 {
        let known = |name: &str| self.known_keywords.iter().position(|keyword| *keyword == name);
        let name = match random.below(20) {
            0 if title.sequel => one(random, &["sequel", "second-part", "sequel-to-cult-favorite"]),
            0 => one(random, &["independent-film", "number-in-title", "based-on-novel"]),
            1..=8 => {
                let genre = one(random, &title.genres);
                one(random, GENRES[genre].3)
            }
            _ => return self.themes.draw(random) - 1,
        };
        known(name).expect("a known keyword") as u64
    }

    /// The keyword at a place.
    pub fn keyword(&self, place: u64) -> String {
        if let Some(known) = self.known_keywords.get(place as usize) {
            return (*known).to_owned();
        }
        let words = KEYWORD_WORDS.len() as u64;
        let word = |number: u64| KEYWORD_WORDS[(number % words) as usize];
        let (first, second, third) = (place % words, place / words % words, place / words / words);
        if third == 0 {
            format!("{}-{}", word(first), word(second))
        } else {
            format!("{}-{}-and-{}", word(first), word(second), word(third))
        }
    }

    /// The place of a company that works on a title, mostly of the same country.
    pub fn firm(&self, random: &mut Random, title: &Title) -> u64 {
        let country = if chance(random, 80.0) {
            title.country
        } else {
            weighted(random, COUNTRIES.iter().map(|country| country.3))
        };
        let known = COMPANIES.iter().filter(|company| company.1 == country).count() as u64;
        if known > 0 && chance(random, 12.0) {
            let first = COMPANIES.iter().position(|company| company.1 == country).expect("there is one");
            return first as u64 + random.below(known);
        }
        (self.firm_starts[country] + self.firms[country].draw(random) - 1).min(self.companies.count - 1)
    }

    /// The country of the company at a place, among the countries.
    pub fn firm_country(&self, place: u64) -> usize {
        match COMPANIES.get(place as usize) {
            Some((_, country)) => *country,
            None => self.firm_starts.partition_point(|start| *start <= place).min(COUNTRIES.len()) - 1,
        }
    }
}

fn person_name(random: &mut Random, style: Style, gender: Option<&str>) -> String {
    let (women, men, families) = names(style);
    let given = match gender {
        Some("m") => one(random, men),
        Some(_) => one(random, women),
        None if random.below(2) == 0 => one(random, women),
        None => one(random, men),
    };
    let family = family_name(random, families);
    if chance(random, 12.0) {
        let second = one(random, if gender == Some("f") { women } else { men });
        return format!("{family}, {given} {second}");
    }
    format!("{family}, {given}")
}

/// A usual family name, or one made of syllables.
fn family_name(random: &mut Random, families: &[&str]) -> String {
    const ONSETS: [&str; 24] = [
        "B", "Br", "C", "D", "F", "G", "H", "J", "K", "Kr", "L", "M", "N", "P", "R", "S", "Sch", "St", "T", "V", "W",
        "X", "Y", "Z",
    ];
    const MIDDLES: [&str; 20] = [
        "al", "an", "ar", "e", "el", "en", "er", "i", "il", "in", "is", "o", "ol", "on", "or", "u", "ul", "un", "ur",
        "ov",
    ];
    const ENDS: [&str; 16] = [
        "a", "berg", "bert", "da", "din", "gan", "ker", "ley", "man", "mann", "nen", "ra", "ski", "son", "ta", "ville",
    ];
    if random.below(3) == 0 {
        return one(random, families).to_owned();
    }
    let (onset, middle) = (one(random, &ONSETS), one(random, &MIDDLES));
    if random.below(2) == 0 {
        format!("{onset}{middle}{}", one(random, &ENDS))
    } else {
        format!("{onset}{middle}{}{}", one(random, &MIDDLES), one(random, &ENDS))
    }
}
