//! A stream whose watcher takes nothing while the rules change: what was ready for it under the old rules is never sent.

use super::oracle::{Cluster, Key, MARKS, Rules};
use super::world::{Ask, World, run, settle};

/// A world in which `viv` may everything, and sees one cluster of nobody's.
async fn world() -> World {
    let key = Key("default", "a");
    World::new(&[], &Rules::lookers("viv"), &[(key, Cluster::of(None))].into()).await
}

async fn streams_open(world: &World) -> String {
    let text = String::from_utf8(world.ask("root", &Ask::get("/metrics")).await.body.to_vec()).unwrap();
    text.lines().find_map(|line| line.strip_prefix("raygate_streams_open ")).unwrap().to_owned()
}

#[test]
fn nothing_but_the_farewell_comes_after_the_rights_have_ended() {
    run(async {
        let world = world().await;
        let mut lines = world.follow("viv", "/watch").await.ok().unwrap();
        settle().await;
        assert_eq!(streams_open(&world).await, "1");
        world.revoke("viv", true);
        settle().await;
        let due = lines.due().await;
        assert!(due.len() == 1 && due[0].contains("ERROR") && due[0].contains("UNAUTHENTICATED"), "{due:?}");
        assert!(lines.ended);
        settle().await;
        assert_eq!(streams_open(&world).await, "0");
    });
}

#[test]
fn what_may_be_seen_no_longer_is_not_sent_any_more() {
    run(async {
        let world = world().await;
        let mut lines = world.follow("viv", "/watch").await.ok().unwrap();
        settle().await;
        world.rule(&Rules::lookers("olga"));
        settle().await;
        let due = lines.due().await;
        assert!(due[0].contains("RESYNC"), "{due:?}");
        assert!(due[1].contains("ADDED") && due[2].contains("SYNCED"), "{due:?}");
        for line in &due {
            assert!(!MARKS.iter().any(|mark| line.contains(mark)), "{line}");
        }
        assert!(!lines.ended);
        // To one who sees it, it is shown: the line that wasn't sent held it.
        let mut seen = world.follow("olga", "/watch").await.ok().unwrap();
        assert!(seen.due().await.iter().any(|line| MARKS.iter().any(|mark| line.contains(mark))));
    });
}

#[test]
fn who_takes_nothing_is_given_up() {
    run(async {
        let world = world().await;
        let lines = world.follow("viv", "/watch").await.ok().unwrap();
        let mut taken = world.follow("viv", "/watch").await.ok().unwrap();
        taken.due().await;
        // By default after 45 s; heartbeats come more often than that.
        for _ in 0..50 {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            taken.due().await;
        }
        assert_eq!(streams_open(&world).await, "1");
        assert!(!taken.ended);
        drop((lines, taken));
        settle().await;
        assert_eq!(streams_open(&world).await, "0");
    });
}
