//! What keys and samples change.

use super::*;
use crate::made_up;

fn model(kind: Kind) -> Model {
    let mut model = Model::new(kind, Column::Wait, Duration::from_secs(1));
    for second in 1..=3 {
        model.hear(News::Sample(Box::new(made_up::sample(second))));
    }
    model.fit(10);
    model
}

fn press(model: &mut Model, keys: &[Key]) {
    for key in keys {
        assert_eq!(model.press(*key), Effect::Nothing, "{key:?}");
    }
}

fn typed(model: &mut Model, text: &str) {
    text.chars().for_each(|character| press(model, &[Key::Char(character)]));
}

fn names(model: &Model) -> Vec<String> {
    model.table().map(|(row, process, _)| format!("{}{}", row.branch, process.stat.name)).collect()
}

fn selected(model: &Model) -> Option<u32> {
    model.table().find(|(.., is_selected)| *is_selected).map(|(row, ..)| row.pid)
}

#[test]
fn q_and_others_end_it() {
    for key in [Key::Char('q'), Key::F(10), Key::Interrupt] {
        for kind in [Kind::OneRun, Kind::RunOfList, Kind::Recording] {
            assert_eq!(model(kind).press(key), Effect::Quit, "{key:?}");
        }
    }
}

#[test]
fn the_table_is_ordered_by_the_column_that_keys_choose() {
    let mut model = model(Kind::OneRun);
    assert_eq!(names(&model), ["redis-server", "worker-1", "worker-2"]);
    press(&mut model, &[Key::Char('I')]);
    assert_eq!(names(&model), ["worker-2", "worker-1", "redis-server"]);
    press(&mut model, &[Key::Char('I'), Key::Char('<')]);
    assert_eq!(model.order().column, Column::Soon);
    press(&mut model, &[Key::F(6), Key::Char('s')]);
    assert_eq!(model.order().column, Column::Full);
    // Nobody is protected or has a weight: those columns are left out.
    press(&mut model, &[Key::Char('>')]);
    assert_eq!(model.order().column, Column::Pid);
    press(&mut model, &[Key::Char('<')]);
    assert_eq!(model.order().column, Column::Full);
}

#[test]
fn columns_that_somebody_needs_are_there() {
    let mut sample = made_up::sample(1);
    sample.stat.processes[1].protected_bytes = 1;
    sample.stat.processes[2].weight = 50;
    let mut model = Model::new(Kind::OneRun, Column::Wait, Duration::from_secs(1));
    assert!(!model.columns().contains(&Column::Weight));
    model.hear(News::Sample(Box::new(sample)));
    assert_eq!(model.columns(), Column::ALL);
}

#[test]
fn a_tree_is_switched_on_and_off() {
    let mut model = model(Kind::OneRun);
    press(&mut model, &[Key::Char('t')]);
    assert_eq!(names(&model), ["redis-server", "|- worker-1", "`- worker-2"]);
    press(&mut model, &[Key::F(5)]);
    assert_eq!(names(&model), ["redis-server", "worker-1", "worker-2"]);
}

#[test]
fn a_filter_takes_all_keys_until_it_is_typed() {
    let mut model = model(Kind::OneRun);
    press(&mut model, &[Key::Char('\\')]);
    typed(&mut model, "workerq");
    assert!(names(&model).is_empty());
    press(&mut model, &[Key::Backspace, Key::Enter]);
    assert_eq!(names(&model), ["worker-1", "worker-2"]);
    assert_eq!((model.over(), model.filter()), (Over::Nothing, "worker"));
    press(&mut model, &[Key::Esc]);
    assert_eq!(model.filter(), "");
    press(&mut model, &[Key::F(4)]);
    typed(&mut model, &"x".repeat(100));
    assert_eq!(model.filter().len(), FILTER_CHARACTERS_MAX);
    press(&mut model, &[Key::Esc]);
    assert_eq!((names(&model).len(), model.over()), (3, Over::Nothing));
    press(&mut model, &[Key::F(4)]);
    assert_eq!(model.press(Key::Interrupt), Effect::Quit);
}

#[test]
fn a_process_stays_selected_when_others_come_before_it() {
    let mut model = model(Kind::OneRun);
    assert_eq!(selected(&model), None);
    press(&mut model, &[Key::Down, Key::Down]);
    assert_eq!(selected(&model), Some(901));
    press(&mut model, &[Key::Char('I')]);
    assert_eq!(selected(&model), Some(901));
    press(&mut model, &[Key::Down]);
    assert_eq!(selected(&model), Some(813));
    press(&mut model, &[Key::Esc]);
    assert_eq!(selected(&model), None);
}

#[test]
fn help_goes_away_by_any_key() {
    let mut model = model(Kind::OneRun);
    for key in [Key::F(1), Key::Char('h'), Key::Char('?')] {
        press(&mut model, &[key]);
        assert_eq!(model.over(), Over::Help);
        press(&mut model, &[Key::Char('q')]);
        assert_eq!(model.over(), Over::Nothing);
    }
}

#[test]
fn the_delay_goes_up_and_down_to_its_ends() {
    let mut model = model(Kind::OneRun);
    press(&mut model, &[Key::Char('+')]);
    assert_eq!(model.delay(), Duration::from_secs(2));
    press(&mut model, &[Key::Char('='); 9]);
    assert_eq!(model.delay(), Duration::from_secs(60));
    press(&mut model, &[Key::Char('-'); 20]);
    assert_eq!(model.delay(), Duration::from_millis(100));
}

#[test]
fn a_run_that_has_ended_keeps_its_picture() {
    let mut model = model(Kind::OneRun);
    press(&mut model, &[Key::Char(' ')]);
    assert_eq!(model.going(), Going::Paused);
    press(&mut model, &[Key::Char(' ')]);
    assert_eq!(model.going(), Going::On);
    model.hear(News::Nothing("the run is busy".to_owned()));
    assert_eq!((model.going(), model.notice()), (Going::On, Some("the run is busy")));
    model.hear(News::Sample(Box::new(made_up::sample(4))));
    assert_eq!(model.notice(), None);
    model.hear(News::Ended("the run has ended".to_owned()));
    press(&mut model, &[Key::Char(' '), Key::Esc, Key::Left]);
    assert_eq!((model.going(), model.notice()), (Going::Ended, Some("the run has ended")));
    assert_eq!(names(&model).len(), 3);
}

#[test]
fn a_run_is_chosen_from_the_list_and_left_again() {
    let run = |pid| RunStat { pid, ..RunStat::default() };
    let mut model = Model::new(Kind::RunOfList, Column::Wait, Duration::from_secs(1));
    assert_eq!((model.page(), model.press(Key::Enter)), (Page::Runs, Effect::Nothing));
    model.hear(News::Runs(vec![run(5), run(6)]));
    assert_eq!(model.press(Key::Enter), Effect::Go(Target::Run(5)));
    model.hear(News::Sample(Box::new(made_up::sample(1))));
    model.hear(News::Ended("the run has ended".to_owned()));
    assert_eq!(model.press(Key::Esc), Effect::Go(Target::Runs));
    assert_eq!((model.page(), model.going(), model.notice()), (Page::Runs, Going::On, None));
    press(&mut model, &[Key::End]);
    assert_eq!(model.press(Key::Enter), Effect::Go(Target::Run(6)));
    assert!(model.sample().is_none(), "that of the other run is gone");
}

#[test]
fn keys_step_through_a_recording() {
    let mut model = model(Kind::Recording);
    let steps = [
        (Key::Left, Target::Samples(-1)),
        (Key::Right, Target::Samples(1)),
        (Key::PageUp, Target::Minutes(-1)),
        (Key::PageDown, Target::Minutes(1)),
        (Key::Char('g'), Target::First),
        (Key::Char('G'), Target::Last),
    ];
    for (key, target) in steps {
        assert_eq!(model.press(key), Effect::Go(target));
    }
    assert_eq!(model.going(), Going::Paused);
    press(&mut model, &[Key::Char(' ')]);
    assert_eq!(model.going(), Going::On);
    model.hear(News::Ended("the recording ends here".to_owned()));
    assert_eq!((model.going(), model.notice()), (Going::Paused, Some("the recording ends here")));
    model.hear(News::Place { index: 2, count: 9 });
    model.hear(News::Jump(vec![made_up::sample(7), made_up::sample(8)]));
    assert_eq!((model.place(), model.history().points().count()), (Some((2, 9)), 1));
    press(&mut model, &[Key::Down]);
    assert_eq!(selected(&model), Some(813));
}
