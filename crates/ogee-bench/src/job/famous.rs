//! Titles that single queries ask for by name, with what these queries expect of them.
//!
//! They have rows of their own besides those that every title of their kind, year and genres has.

/// Someone's part in a title: name, role, character, note.
pub type Part = (&'static str, &'static str, Option<&'static str>, Option<&'static str>);

/// A title that a query names.
pub struct Famous {
    pub title: &'static str,
    /// Of `kind_type`.
    pub kind: &'static str,
    pub year: i64,
    /// Place among the countries.
    pub country: usize,
    pub genres: &'static [&'static str],
    pub keywords: &'static [&'static str],
    /// Name, type and note.
    pub companies: &'static [(&'static str, &'static str, Option<&'static str>)],
    pub parts: &'static [Part],
    /// Type, value and note of `movie_info`.
    pub info: &'static [(&'static str, &'static str, Option<&'static str>)],
    /// The value of `rating`, and the rank among the bottom ten.
    pub rating: &'static str,
    pub bottom: Option<u64>,
    /// Type, and the title that is linked to.
    pub links: &'static [(&'static str, &'static str)],
    /// Subject and status of `complete_cast`.
    pub complete: &'static [(&'static str, &'static str)],
}

const PLAIN: Famous = Famous {
    title: "",
    kind: "movie",
    year: 2000,
    country: 0,
    genres: &["Comedy"],
    keywords: &[],
    companies: &[],
    parts: &[],
    info: &[],
    rating: "6.1",
    bottom: None,
    links: &[],
    complete: &[],
};

const STARK: &[Part] = &[("Downey Jr., Robert", "actor", Some("Tony Stark / Iron Man"), None)];
const COMPLETE: &[(&str, &str)] = &[("cast", "complete+verified"), ("crew", "complete")];
const MARVEL: &[&str] =
    &["marvel-cinematic-universe", "superhero", "marvel-comics", "based-on-comic", "sequel", "violence", "fight"];

const IRON: Famous = Famous {
    genres: &["Action", "Sci-Fi"],
    keywords: MARVEL,
    companies: &[
        ("Marvel Studios", "production companies", None),
        ("Paramount Pictures", "distributors", Some("(2008) (USA) (theatrical)")),
    ],
    parts: STARK,
    rating: "8.1",
    complete: COMPLETE,
    ..PLAIN
};

const WORST: Famous = Famous {
    companies: &[
        ("Moviehead Pictures", "production companies", Some("(presents)")),
        ("20th Century Fox", "distributors", Some("(2008) (USA) (theatrical)")),
    ],
    info: &[("budget", "$10,000", None)],
    rating: "1.8",
    ..PLAIN
};

const HORROR: Famous = Famous {
    genres: &["Horror", "Thriller"],
    keywords: &["murder", "blood", "gore", "death", "violence", "hospital", "sequel"],
    companies: &[
        ("Lionsgate", "production companies", None),
        ("Lionsgate Home Entertainment", "distributors", Some("(2008) (USA) (DVD) (Blu-ray)")),
    ],
    parts: &[
        ("Whannell, Leigh", "writer", None, Some("(written by)")),
        ("Wan, James", "writer", None, Some("(story)")),
    ],
    rating: "7.4",
    complete: COMPLETE,
    ..PLAIN
};

const PANDA: Famous = Famous {
    genres: &["Animation", "Action", "Family"],
    keywords: &["martial-arts", "hero", "hand-to-hand-combat", "computer-animation", "computer-animated-movie"],
    companies: &[
        ("DreamWorks Animation", "production companies", Some("(2008) (USA)")),
        ("Paramount Pictures", "distributors", Some("(2008) (USA) (theatrical)")),
        ("Paramount Pictures", "distributors", Some("(2008) (worldwide) (theatrical)")),
    ],
    parts: &[("Jolie, Angelina", "actress", Some("Tigress"), Some("(voice)"))],
    rating: "7.6",
    complete: COMPLETE,
    ..PLAIN
};

const ANIME: Famous = Famous {
    year: 2007,
    country: 4,
    genres: &["Animation", "Action"],
    keywords: &["martial-arts", "based-on-comic", "sequel"],
    companies: &[("Toei Animation", "distributors", Some("(2007) (Japan) (theatrical)"))],
    parts: &[("Minami, Yoko", "actress", Some("Nami"), Some("(voice: English version)"))],
    rating: "7.1",
    ..PLAIN
};

const SERIES: Famous = Famous {
    kind: "tv series",
    year: 2007,
    companies: &[("Endemol Entertainment", "production companies", None)],
    rating: "2.1",
    ..PLAIN
};

/// See the module.
pub const FAMOUS: [Famous; 31] = [
    Famous { title: "Iron Man", year: 2008, info: &[("release dates", "USA:2 May 2008", None)], ..IRON },
    Famous { title: "Iron Man 2", year: 2010, links: &[("follows", "Iron Man")], ..IRON },
    Famous { title: "Iron Man 3", year: 2013, links: &[("follows", "Iron Man 2")], ..IRON },
    Famous { title: "The Avengers", year: 2012, ..IRON },
    Famous { title: "Avengers: Age of Ultron", year: 2015, links: &[("follows", "The Avengers")], ..IRON },
    Famous { title: "Birdemic: Shock and Terror", year: 2010, bottom: Some(1), ..WORST },
    Famous { title: "Disaster Movie", year: 2008, bottom: Some(2), ..WORST },
    Famous { title: "Epic Movie", year: 2007, bottom: Some(3), ..WORST },
    Famous { title: "Date Movie", year: 2006, bottom: Some(4), ..WORST },
    Famous { title: "Wrestling Night", year: 2005, bottom: Some(5), ..WORST },
    Famous { title: "Lost in the Garage", year: 2003, bottom: Some(6), ..WORST },
    Famous { title: "The Talking Puppy", year: 2004, bottom: Some(7), ..WORST },
    Famous { title: "Dance Champion 3", year: 2009, bottom: Some(8), ..WORST },
    Famous { title: "Zombie Holiday", year: 1988, bottom: Some(9), ..WORST },
    Famous { title: "Tunnel of Fools", year: 1966, bottom: Some(10), ..WORST },
    Famous { title: "Saw", year: 2004, ..HORROR },
    Famous { title: "Saw II", year: 2005, links: &[("follows", "Saw")], ..HORROR },
    Famous { title: "Freddy vs. Jason", year: 2003, ..HORROR },
    Famous { title: "Vampire Academy", year: 2014, ..HORROR },
    Famous {
        title: "Shrek 2",
        year: 2004,
        parts: &[
            ("Andrews, Julie", "actress", Some("Queen"), Some("(voice)")),
            ("Saunders, Ann", "actress", Some("Queen"), Some("(voice: English version)")),
        ],
        info: &[("release dates", "USA:19 May 2004", None), ("release dates", "Japan:24 July 2004", None)],
        ..PANDA
    },
    Famous {
        title: "Kung Fu Panda",
        year: 2008,
        info: &[("release dates", "USA:6 June 2008", None), ("release dates", "Japan:26 July 2008", None)],
        ..PANDA
    },
    Famous {
        title: "Kung Fu Panda 2",
        year: 2011,
        info: &[("release dates", "USA:26 May 2011", None), ("release dates", "Japan:19 August 2011", None)],
        links: &[("follows", "Kung Fu Panda")],
        ..PANDA
    },
    Famous { title: "One Piece: Episode of Alabasta", ..ANIME },
    Famous { title: "Dragon Ball Z: Battle of Two Worlds", year: 2006, ..ANIME },
    Famous { title: "House of Strangers", ..SERIES },
    Famous { title: "House of Strangers: The Return", links: &[("follows", "House of Strangers")], ..SERIES },
    Famous {
        title: "Easy Money II",
        year: 1998,
        keywords: &["sequel", "second-part"],
        companies: &[
            ("Svensk Filmindustri (SF)", "production companies", None),
            ("Twentieth Century Fox Film Corporation", "distributors", Some("(1998) (USA) (theatrical)")),
        ],
        info: &[("countries", "Sweden", None), ("countries", "Germany", None), ("languages", "German", None)],
        links: &[("follows", "Loser Town")],
        complete: &[("cast", "complete"), ("crew", "complete")],
        ..PLAIN
    },
    Famous {
        title: "Loser Town",
        year: 2006,
        keywords: &["10,000-mile-club", "nerd", "loner"],
        companies: &[
            ("YouTube", "distributors", Some("(2006) (worldwide) (video)")),
            ("Columbia Pictures", "production companies", None),
        ],
        info: &[("release dates", "USA:5 March 2006", Some("(internet)"))],
        links: &[("followed by", "Easy Money II")],
        complete: COMPLETE,
        ..PLAIN
    },
    Famous {
        title: "The Lighthouse Keeper",
        year: 1982,
        country: 2,
        genres: &["Drama"],
        parts: &[("Dahlberg, Hans", "actor", None, None), ("Abendroth, Karl", "director", None, None)],
        ..PLAIN
    },
    Famous {
        title: "Mord im Regen",
        year: 2010,
        country: 2,
        genres: &["Crime", "Thriller"],
        keywords: &["murder", "blood", "violence"],
        companies: &[("Constantin Film", "distributors", Some("(2009) (Germany) (theatrical)"))],
        info: &[("countries", "Germany", None)],
        rating: "5.4",
        ..PLAIN
    },
    Famous {
        title: "A Century of Cinema",
        genres: &["Documentary"],
        links: &[("features", "The Lighthouse Keeper")],
        ..PLAIN
    },
];

/// Everyone who has a part in them, once, with the gender.
pub fn people() -> Vec<(&'static str, &'static str)> {
    let mut people: Vec<(&str, &str)> = Vec::new();
    for (name, role, ..) in FAMOUS.iter().flat_map(|famous| famous.parts) {
        if !people.iter().any(|(known, _)| known == name) {
            people.push((name, if *role == "actress" { "f" } else { "m" }));
        }
    }
    people
}
