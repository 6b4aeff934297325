//! The table: who gets what answer.

use std::collections::BTreeSet;

use http::Method;
use raygate::http::ACTIONS;

use crate::support::Outcome;

/// The columns. Each is a user of this name; `none` sends no token and `bad` one that nobody has. The grants are in
/// [`super::policy`].
pub(super) const CALLERS: [&str; 10] =
    ["none", "bad", "expired", "viewer", "owner", "other", "operator", "admin", "elsewhere", "nobody"];

/// A row is a verb, a route, what is asked about and the answer to each caller. `PUT` has `If-Match: *`, and so has what
/// is asked of a worker group; `PUT-NEW` has `If-None-Match: *`, `PUT-ANY` neither. Whoever can't see a cluster gets what they get where there is none, but for a
/// create, whose name is taken. A role that isn't enough is told before anything about the cluster.
///
/// Asked about is: `-` nothing, `own` one's default namespace, `all` every namespace; else a cluster, or its namespace:
/// `plain` the owner's, `private` the same in a private namespace, `ownerless` and `unowned` nobody's in each of these,
/// `missing` and `absent` none in each of these, `nowhere` none in a namespace that there isn't. `404N` is
/// `NAMESPACE_NOT_FOUND`.
const TABLE: &str = "
                                       none bad exp  viewer owner other operator admin elsewhere nobody
GET     /clusters                own        401 401 401  200 200 200 200 200  200 403
GET     /clusters                all        401 401 401  200 200 200 200 200  200 403
GET     /clusters                plain      401 401 401  200 200 200 200 200  403 403
GET     /clusters                private    401 401 401  200 200 200 200 200  403 403
GET     /clusters                nowhere    401 401 401  403 403 403 403 200  403 403

POST    /clusters                own        401 401 401  403 201 201 201 201  201 403
POST    /clusters                missing    401 401 401  403 201 201 201 201  403 403
POST    /clusters                absent     401 401 401  403 201 201 201 201  403 403
POST    /clusters                plain      401 401 401  403 409 409 409 409  403 403
POST    /clusters                private    401 401 401  403 409 409 409 409  403 403
POST    /clusters                ownerless  401 401 401  403 409 409 409 409  403 403
POST    /clusters                unowned    401 401 401  403 409 409 409 409  403 403
POST    /clusters                nowhere    401 401 401  403 403 403 403 404N 403 403

GET     /clusters/{ref}          plain      401 401 401  200 200 200 200 200  403 403
GET     /clusters/{ref}          private    401 401 401  404 200 404 200 200  403 403
GET     /clusters/{ref}          ownerless  401 401 401  200 200 200 200 200  403 403
GET     /clusters/{ref}          unowned    401 401 401  200 200 200 200 200  403 403
GET     /clusters/{ref}          missing    401 401 401  404 404 404 404 404  403 403
GET     /clusters/{ref}          absent     401 401 401  404 404 404 404 404  403 403
GET     /clusters/{ref}          nowhere    401 401 401  403 403 403 403 404  403 403

PUT     /clusters/{ref}          plain      401 401 401  403 200 403 200 200  403 403
PUT     /clusters/{ref}          private    401 401 401  403 200 412 200 200  403 403
PUT     /clusters/{ref}          ownerless  401 401 401  403 403 403 200 200  403 403
PUT     /clusters/{ref}          unowned    401 401 401  403 403 403 200 200  403 403
PUT     /clusters/{ref}          missing    401 401 401  403 412 412 412 412  403 403
PUT     /clusters/{ref}          absent     401 401 401  403 412 412 412 412  403 403
PUT     /clusters/{ref}          nowhere    401 401 401  403 403 403 403 412  403 403

PUT-NEW /clusters/{ref}          plain      401 401 401  403 412 403 412 412  403 403
PUT-NEW /clusters/{ref}          private    401 401 401  403 412 412 412 412  403 403
PUT-NEW /clusters/{ref}          ownerless  401 401 401  403 403 403 412 412  403 403
PUT-NEW /clusters/{ref}          unowned    401 401 401  403 403 403 412 412  403 403
PUT-NEW /clusters/{ref}          missing    401 401 401  403 201 201 201 201  403 403
PUT-NEW /clusters/{ref}          absent     401 401 401  403 201 201 201 201  403 403
PUT-NEW /clusters/{ref}          nowhere    401 401 401  403 403 403 403 404N 403 403

PUT-ANY /clusters/{ref}          plain      401 401 401  403 428 403 428 428  403 403
PUT-ANY /clusters/{ref}          private    401 401 401  403 428 409 428 428  403 403
PUT-ANY /clusters/{ref}          ownerless  401 401 401  403 403 403 428 428  403 403
PUT-ANY /clusters/{ref}          unowned    401 401 401  403 403 403 428 428  403 403
PUT-ANY /clusters/{ref}          missing    401 401 401  403 201 201 201 201  403 403
PUT-ANY /clusters/{ref}          absent     401 401 401  403 201 201 201 201  403 403
PUT-ANY /clusters/{ref}          nowhere    401 401 401  403 403 403 403 404N 403 403

PATCH   /clusters/{ref}          plain      401 401 401  403 200 403 200 200  403 403
PATCH   /clusters/{ref}          private    401 401 401  403 200 404 200 200  403 403
PATCH   /clusters/{ref}          ownerless  401 401 401  403 403 403 200 200  403 403
PATCH   /clusters/{ref}          unowned    401 401 401  403 403 403 200 200  403 403
PATCH   /clusters/{ref}          missing    401 401 401  403 404 404 404 404  403 403
PATCH   /clusters/{ref}          absent     401 401 401  403 404 404 404 404  403 403
PATCH   /clusters/{ref}          nowhere    401 401 401  403 403 403 403 404  403 403

DELETE  /clusters/{ref}          plain      401 401 401  403 202 403 202 202  403 403
DELETE  /clusters/{ref}          private    401 401 401  403 202 404 202 202  403 403
DELETE  /clusters/{ref}          ownerless  401 401 401  403 403 403 202 202  403 403
DELETE  /clusters/{ref}          unowned    401 401 401  403 403 403 202 202  403 403
DELETE  /clusters/{ref}          missing    401 401 401  403 404 404 404 404  403 403
DELETE  /clusters/{ref}          absent     401 401 401  403 404 404 404 404  403 403
DELETE  /clusters/{ref}          nowhere    401 401 401  403 403 403 403 404  403 403

POST    /clusters/{ref}/stop     plain      401 401 401  403 202 403 202 202  403 403
POST    /clusters/{ref}/stop     private    401 401 401  403 202 404 202 202  403 403
POST    /clusters/{ref}/stop     ownerless  401 401 401  403 403 403 202 202  403 403
POST    /clusters/{ref}/stop     unowned    401 401 401  403 403 403 202 202  403 403
POST    /clusters/{ref}/stop     missing    401 401 401  403 404 404 404 404  403 403
POST    /clusters/{ref}/stop     absent     401 401 401  403 404 404 404 404  403 403
POST    /clusters/{ref}/stop     nowhere    401 401 401  403 403 403 403 404  403 403

POST    /clusters/{ref}/start    plain      401 401 401  403 202 403 202 202  403 403
POST    /clusters/{ref}/start    private    401 401 401  403 202 404 202 202  403 403
POST    /clusters/{ref}/start    ownerless  401 401 401  403 403 403 202 202  403 403
POST    /clusters/{ref}/start    unowned    401 401 401  403 403 403 202 202  403 403
POST    /clusters/{ref}/start    missing    401 401 401  403 404 404 404 404  403 403
POST    /clusters/{ref}/start    absent     401 401 401  403 404 404 404 404  403 403
POST    /clusters/{ref}/start    nowhere    401 401 401  403 403 403 403 404  403 403

POST    /clusters/{ref}/restart  plain      401 401 401  403 202 403 202 202  403 403
POST    /clusters/{ref}/restart  private    401 401 401  403 202 404 202 202  403 403
POST    /clusters/{ref}/restart  ownerless  401 401 401  403 403 403 202 202  403 403
POST    /clusters/{ref}/restart  unowned    401 401 401  403 403 403 202 202  403 403
POST    /clusters/{ref}/restart  missing    401 401 401  403 404 404 404 404  403 403
POST    /clusters/{ref}/restart  absent     401 401 401  403 404 404 404 404  403 403
POST    /clusters/{ref}/restart  nowhere    401 401 401  403 403 403 403 404  403 403

PATCH   /clusters/{ref}/workerGroups/{group} plain      401 401 401  403 200 403 200 200  403 403
PATCH   /clusters/{ref}/workerGroups/{group} private    401 401 401  403 200 404 200 200  403 403
PATCH   /clusters/{ref}/workerGroups/{group} ownerless  401 401 401  403 403 403 200 200  403 403
PATCH   /clusters/{ref}/workerGroups/{group} unowned    401 401 401  403 403 403 200 200  403 403
PATCH   /clusters/{ref}/workerGroups/{group} missing    401 401 401  403 404 404 404 404  403 403
PATCH   /clusters/{ref}/workerGroups/{group} absent     401 401 401  403 404 404 404 404  403 403
PATCH   /clusters/{ref}/workerGroups/{group} nowhere    401 401 401  403 403 403 403 404  403 403

PUT     /clusters/{ref}/workerGroups/{group} plain      401 401 401  403 201 403 201 201  403 403
PUT     /clusters/{ref}/workerGroups/{group} private    401 401 401  403 201 412 201 201  403 403
PUT     /clusters/{ref}/workerGroups/{group} ownerless  401 401 401  403 403 403 201 201  403 403
PUT     /clusters/{ref}/workerGroups/{group} unowned    401 401 401  403 403 403 201 201  403 403
PUT     /clusters/{ref}/workerGroups/{group} missing    401 401 401  403 412 412 412 412  403 403
PUT     /clusters/{ref}/workerGroups/{group} absent     401 401 401  403 412 412 412 412  403 403
PUT     /clusters/{ref}/workerGroups/{group} nowhere    401 401 401  403 403 403 403 412  403 403

DELETE  /clusters/{ref}/workerGroups/{group} plain      401 401 401  403 202 403 202 202  403 403
DELETE  /clusters/{ref}/workerGroups/{group} private    401 401 401  403 202 412 202 202  403 403
DELETE  /clusters/{ref}/workerGroups/{group} ownerless  401 401 401  403 403 403 202 202  403 403
DELETE  /clusters/{ref}/workerGroups/{group} unowned    401 401 401  403 403 403 202 202  403 403
DELETE  /clusters/{ref}/workerGroups/{group} missing    401 401 401  403 412 412 412 412  403 403
DELETE  /clusters/{ref}/workerGroups/{group} absent     401 401 401  403 412 412 412 412  403 403
DELETE  /clusters/{ref}/workerGroups/{group} nowhere    401 401 401  403 403 403 403 412  403 403

POST    /clusters/{ref}/owner    plain      401 401 401  403 403 403 200 200  403 403
POST    /clusters/{ref}/owner    private    401 401 401  403 403 403 200 200  403 403
POST    /clusters/{ref}/owner    ownerless  401 401 401  403 403 403 200 200  403 403
POST    /clusters/{ref}/owner    unowned    401 401 401  403 403 403 200 200  403 403
POST    /clusters/{ref}/owner    missing    401 401 401  403 403 403 404 404  403 403
POST    /clusters/{ref}/owner    absent     401 401 401  403 403 403 404 404  403 403
POST    /clusters/{ref}/owner    nowhere    401 401 401  403 403 403 403 404  403 403

GET     /clusters/{ref}/manifest plain      401 401 401  200 200 200 200 200  403 403
GET     /clusters/{ref}/manifest private    401 401 401  404 200 404 200 200  403 403
GET     /clusters/{ref}/manifest ownerless  401 401 401  200 200 200 200 200  403 403
GET     /clusters/{ref}/manifest unowned    401 401 401  200 200 200 200 200  403 403
GET     /clusters/{ref}/manifest missing    401 401 401  404 404 404 404 404  403 403
GET     /clusters/{ref}/manifest absent     401 401 401  404 404 404 404 404  403 403
GET     /clusters/{ref}/manifest nowhere    401 401 401  403 403 403 403 404  403 403

GET     /clusters/{ref}/watch    plain      401 401 401  200 200 200 200 200  403 403
GET     /clusters/{ref}/watch    private    401 401 401  404 200 404 200 200  403 403
GET     /clusters/{ref}/watch    ownerless  401 401 401  200 200 200 200 200  403 403
GET     /clusters/{ref}/watch    unowned    401 401 401  200 200 200 200 200  403 403
GET     /clusters/{ref}/watch    missing    401 401 401  404 404 404 404 404  403 403
GET     /clusters/{ref}/watch    absent     401 401 401  404 404 404 404 404  403 403
GET     /clusters/{ref}/watch    nowhere    401 401 401  403 403 403 403 404  403 403

GET     /watch                   own        401 401 401  200 200 200 200 200  200 403
GET     /watch                   all        401 401 401  200 200 200 200 200  200 403
GET     /watch                   plain      401 401 401  200 200 200 200 200  403 403
GET     /watch                   private    401 401 401  200 200 200 200 200  403 403
GET     /watch                   nowhere    401 401 401  403 403 403 403 200  403 403

GET     /whoami                  -          401 401 401  200 200 200 200 200  200 200

GET     /health                  -          200 200 200  200 200 200 200 200  200 200
GET     /ready                   -          200 200 200  200 200 200 200 200  200 200
GET     /version                 -          200 200 200  200 200 200 200 200  200 200
GET     /metrics                 -          200 200 200  200 200 200 200 200  200 200
GET     /openapi.json            -          200 200 200  200 200 200 200 200  200 200
GET     /                        -          307 307 307  307 307 307 307 307  307 307
GET     /docs                    -          308 308 308  308 308 308 308 308  308 308
GET     /docs/                   -          200 200 200  200 200 200 200 200  200 200
GET     /docs/{*file}            -          200 200 200  200 200 200 200 200  200 200
";

/// What a route for one cluster, or for a new one, must have rows about; and a route for clusters.
const CLUSTERS: [&str; 7] = ["plain", "private", "ownerless", "unowned", "missing", "absent", "nowhere"];
const COLLECTIONS: [&str; 5] = ["own", "all", "plain", "private", "nowhere"];

/// One line of the table.
pub(super) struct Row {
    pub(super) verb: &'static str,
    pub(super) route: &'static str,
    pub(super) about: &'static str,
    /// The answer to each of [`CALLERS`].
    pub(super) cells: Vec<&'static str>,
}

/// The whole table.
pub(super) fn rows() -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for line in TABLE.lines().filter(|line| line.contains('/')) {
        let words: Vec<_> = line.split_whitespace().collect();
        let [verb, route, about, cells @ ..] = words.as_slice() else { return Err(line.into()) };
        assert_eq!(cells.len(), CALLERS.len(), "{line}");
        rows.push(Row { verb, route, about, cells: cells.to_vec() });
    }
    Ok(rows)
}

impl Row {
    /// The method of its request.
    pub(super) fn method(&self) -> Outcome<Method> {
        Ok(self.verb.split('-').next().unwrap_or_default().parse()?)
    }

    /// Whether it reads clusters, and takes the parameters that say how new they must be.
    pub(super) fn is_read(&self) -> bool {
        self.verb == "GET" && self.route.starts_with("/clusters") && !self.is_stream()
    }

    /// Whether a successful answer has no end.
    pub(super) fn is_stream(&self) -> bool {
        self.route.ends_with("/watch")
    }
}

#[test]
fn every_route_has_its_rows_and_every_row_its_route() -> Outcome {
    let mut wanted = BTreeSet::new();
    for (method, route, _) in ACTIONS {
        let whole = *route == "/clusters/{ref}";
        let verbs =
            if *method == Method::PUT && whole { vec!["PUT", "PUT-NEW", "PUT-ANY"] } else { vec![method.as_str()] };
        let mut abouts = vec!["-"];
        if route.contains("{ref}") {
            abouts = CLUSTERS.to_vec();
        } else if *method == Method::POST {
            abouts = [&["own"], &CLUSTERS[..]].concat();
        } else if ["/clusters", "/watch"].contains(route) {
            abouts = COLLECTIONS.to_vec();
        }
        for verb in verbs {
            wanted.extend(abouts.iter().map(|about| (verb, *route, *about)));
        }
    }
    let rows: Vec<_> = rows()?.into_iter().map(|row| (row.verb, row.route, row.about)).collect();
    let set: BTreeSet<_> = rows.iter().copied().collect();
    assert_eq!(set.len(), rows.len(), "a row is there twice");
    let missing: Vec<_> = wanted.difference(&set).collect();
    let odd: Vec<_> = set.difference(&wanted).collect();
    assert!(missing.is_empty() && odd.is_empty(), "without a row: {missing:?}, without a route: {odd:?}");
    Ok(())
}
