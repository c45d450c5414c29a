//! Which columns of a table a line has room for, and how wide they are.
//!
//! Columns are first cut to the widths of [`CUT_TO`], then columns in the middle are left out, and at last those that were cut get what
//! room is left. A column takes three characters beside its own: a line, and a blank on both sides.

/// Columns wider than this are cut before others are left out: to the first if that is enough.
const CUT_TO: [usize; 2] = [20, 10];

/// What is around a column.
const AROUND: usize = 3;

/// The columns that are shown.
#[derive(Debug, PartialEq, Eq)]
pub struct Fit {
    /// How many of the first ones.
    pub front: usize,
    /// How many of the last ones.
    pub back: usize,
    /// Whether there are others between them.
    pub elided: bool,
    /// Their widths.
    pub widths: Vec<usize>,
}

fn line(widths: impl Iterator<Item = usize>) -> usize {
    1 + widths.map(|width| width + AROUND).sum::<usize>()
}

/// Fits columns of `natural` widths into `width`. `elided` says that there are others in their middle, which are left out anyway.
pub fn fit(natural: &[usize], elided: bool, width: Option<usize>) -> Fit {
    let count = natural.len();
    let all = |widths: Vec<usize>| Fit { front: count, back: 0, elided: false, widths };
    let Some(width) = width else {
        return all(natural.to_vec());
    };
    if !elided && line(natural.iter().copied()) <= width {
        return all(natural.to_vec());
    }
    let cut_to = |most: usize| natural.iter().map(|natural| (*natural).min(most)).collect::<Vec<_>>();
    for most in CUT_TO {
        let cut = cut_to(most);
        if !elided && line(cut.iter().copied()) <= width {
            return all(widened(cut, natural, width));
        }
    }
    let cut = cut_to(CUT_TO[0]);
    if !elided && count == 1 {
        return all(vec![width.saturating_sub(1 + AROUND).clamp(1, cut[0])]);
    }
    // From outside in, as long as there is room beside the column of dots.
    let (mut front, mut back) = (0, 0);
    let mut taken = 1 + 1 + AROUND;
    while front + back < count {
        let (next, is_front) = match front <= back {
            true => (cut[front], true),
            false => (cut[count - 1 - back], false),
        };
        // The first one is shown in any case, in what room there is.
        if taken + next + AROUND > width && front > 0 {
            break;
        }
        taken += next + AROUND;
        match is_front {
            true => front += 1,
            false => back += 1,
        }
    }
    let shown = |of: &[usize]| of[..front].iter().chain(&of[count - back..]).copied().collect::<Vec<_>>();
    let (mut cut, natural) = (shown(&cut), shown(natural));
    if let [only] = &mut cut[..] {
        *only = (*only).min(width.saturating_sub(1 + 1 + 2 * AROUND).max(1));
    }
    Fit { front, back, elided: true, widths: widened(cut, &natural, width.saturating_sub(1 + AROUND)) }
}

/// Gives those of `widths` that are below `natural` what is left of `width`, evenly.
fn widened(mut widths: Vec<usize>, natural: &[usize], width: usize) -> Vec<usize> {
    let mut spare = width.saturating_sub(line(widths.iter().copied()));
    loop {
        let wanting: Vec<usize> = (0..widths.len()).filter(|at| widths[*at] < natural[*at]).collect();
        if wanting.is_empty() || spare == 0 {
            return widths;
        }
        let each = (spare / wanting.len()).max(1);
        for at in wanting {
            let more = each.min(natural[at] - widths[at]).min(spare);
            widths[at] += more;
            spare -= more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_left_as_it_is() {
        let whole = Fit { front: 2, back: 0, elided: false, widths: vec![5, 60] };
        assert_eq!(fit(&[5, 60], false, None), whole);
        assert_eq!(fit(&[5, 60], false, Some(72)), whole);
    }

    #[test]
    fn wide_columns_are_cut_before_others_are_left_out() {
        let fitted = fit(&[5, 60], false, Some(60));
        assert_eq!(fitted, Fit { front: 2, back: 0, elided: false, widths: vec![5, 48] });
        assert_eq!(fit(&[30, 60, 100], false, Some(100)).widths, vec![30, 30, 30]);
        assert_eq!(fit(&[5, 60], false, Some(30)), Fit { front: 2, back: 0, elided: false, widths: vec![5, 18] });
    }

    #[test]
    fn the_middle_is_left_out() {
        let fitted = fit(&[8; 40], false, Some(60));
        assert_eq!(fitted, Fit { front: 3, back: 2, elided: true, widths: vec![8; 5] });
        assert!(line(fitted.widths.into_iter()) + 4 <= 60);
    }

    #[test]
    fn one_column_is_shown_in_any_room() {
        assert_eq!(fit(&[500], false, Some(20)).widths, vec![16]);
        assert_eq!(fit(&[500, 7], false, Some(20)), Fit { front: 1, back: 0, elided: true, widths: vec![12] });
        assert_eq!(fit(&[500], false, Some(1)).widths, vec![1]);
    }
}
