//! No route without an action, no action without a route.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use http::Method;
use raygate::access::Action;
use raygate::http::{ACTIONS, openapi};
use serde_json::Value;

use crate::streams::Lines;
use crate::support::{Outcome, Raygate};

/// Every action; a new one doesn't compile until it is here.
macro_rules! every {
    ($($action:ident)*) => {
        const EVERY: &[Action] = &[$(Action::$action),*];

        /// Exists to be exhaustive.
        const fn is_listed(action: Action) -> bool {
            match action { $(Action::$action => true),* }
        }
    };
}

every! {
    Probe ReadDocs ReadSelf ListClusters WatchClusters CreateCluster ReadCluster WriteCluster ReadManifest WatchCluster
    DeleteCluster StopCluster StartCluster RestartCluster SetOwner
}

#[test]
fn every_described_operation_has_an_action() -> Outcome {
    let description: Value = serde_json::from_str(&openapi().to_json()?)?;
    let held: HashSet<_> = ACTIONS.iter().map(|(method, path, _)| (method.as_str().to_lowercase(), *path)).collect();
    let mut count = 0;
    for (path, methods) in description["paths"].as_object().ok_or("no paths")? {
        for method in methods.as_object().ok_or("no methods")?.keys() {
            assert!(held.contains(&(method.clone(), path.as_str())), "{method} {path} has no action");
            count += 1;
        }
    }
    assert!(count >= 11, "{count} operations are described");
    Ok(())
}

#[test]
fn every_other_route_has_an_action() -> Outcome {
    let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/mod.rs"))?;
    let routes: Vec<_> = source.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(routes.len() >= 6, "{routes:?}");
    for route in routes {
        assert!(ACTIONS.iter().any(|(_, path, _)| *path == route), "{route} has no action");
    }
    Ok(())
}

#[test]
fn every_action_is_used_and_no_route_is_named_twice() {
    let used: HashSet<_> = ACTIONS.iter().map(|(_, _, action)| *action).collect();
    for action in EVERY {
        assert!(is_listed(*action) && used.contains(action), "{action:?} is no route's");
    }
    let routes: HashSet<_> = ACTIONS.iter().map(|(method, path, _)| (method, path)).collect();
    assert_eq!(routes.len(), ACTIONS.len(), "a route is there twice: the first one wins");
}

/// Names are the audit's and the metrics': camelCase, each its own.
#[test]
fn every_action_has_a_name() {
    let names: HashSet<_> = EVERY.iter().map(|action| action.name()).collect();
    assert_eq!(names.len(), EVERY.len(), "{names:?}");
    for action in EVERY {
        let (name, variant) = (action.name(), format!("{action:?}"));
        assert!(name.starts_with(|letter: char| letter.is_ascii_lowercase()), "{name}");
        assert!(name.eq_ignore_ascii_case(&variant) && name[1..] == variant[1..], "{name} is {variant}");
    }
}

/// What can only look.
#[test]
fn changes_are_actions_of_their_own() {
    let changing: BTreeSet<_> = ACTIONS
        .iter()
        .filter(|(method, _, _)| *method != Method::GET)
        .map(|(method, path, action)| format!("{method} {path} {action:?}"))
        .collect();
    let wanted = [
        "DELETE /clusters/{ref} DeleteCluster",
        "DELETE /clusters/{ref}/workerGroups/{group} WriteCluster",
        "PATCH /clusters/{ref} WriteCluster",
        "PATCH /clusters/{ref}/workerGroups/{group} WriteCluster",
        "POST /clusters CreateCluster",
        "POST /clusters/{ref}/owner SetOwner",
        "POST /clusters/{ref}/restart RestartCluster",
        "POST /clusters/{ref}/start StartCluster",
        "POST /clusters/{ref}/stop StopCluster",
        "PUT /clusters/{ref} WriteCluster",
        "PUT /clusters/{ref}/workerGroups/{group} WriteCluster",
    ];
    assert_eq!(changing.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
}

#[tokio::test]
async fn every_action_is_served() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for (method, path, action) in ACTIONS {
        let path = path.replace("{ref}", "x").replace("{*file}", "swagger-ui.css");
        // A stream has no end: its head is all that is read.
        let status = Lines::ask(&raygate, method.clone(), &path).await?.status.as_u16();
        if status == 404 {
            let problem = raygate.send(method.clone(), &path, &[], "").await?.problem(404, "NOT_FOUND");
            assert_eq!(problem["detail"], "There is no cluster x.default.", "{method} {path}");
            continue;
        }
        // A write without a body is refused for that.
        let writes = [Method::POST, Method::PUT, Method::PATCH].contains(method);
        let wanted: &[u16] = if writes { &[415] } else { &[200, 307, 308] };
        assert!(wanted.contains(&status), "{method} {path} ({action:?}) answers {status}");
    }
    Ok(())
}
