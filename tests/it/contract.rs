//! What the ports promise, said from the outside and true of every backend: it is what keeps them alike.
//!
//! [`promises!`] makes a test of every promise. It takes a function that answers a [`Ground`] of its own to each test,
//! and attributes for the tests:
//!
//! ```ignore
//! mod bed {
//!     async fn ground() -> Outcome<Ground> { … }
//!     promises!(ground, #[ignore = "needs the control plane"]);
//! }
//! ```

use std::error::Error;

use raygate::manager::Backend;

pub(crate) mod deletes;
mod follow;
pub(crate) mod life;
pub(crate) mod objects;
mod samples;
pub(crate) mod watches;
pub(crate) mod writes;

/// What a promise answers: nothing, or how it was broken.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Where one promise is tried: a backend, and two namespaces in it that nobody else uses.
pub(crate) struct Ground {
    pub(crate) backend: Backend,
    pub(crate) namespace: String,
    pub(crate) elsewhere: String,
}

/// A namespace that no backend has.
const NOWHERE: &str = "no-such-namespace";

macro_rules! promises {
    ($ground:path $(, #[$attribute:meta])*) => {
        promises! { @each $ground, [$(#[$attribute])*],
            objects [
                created_object_reads_back
                taken_name_is_refused
                absent_object_is_not_found
                absent_namespace_takes_no_object
                crd_defaults_appear
                unknown_to_us_is_kept
                status_is_the_operators
                invalid_object_is_refused_with_its_cause
                label_selector_picks
                unreadable_selector_is_refused
            ]
            writes [
                fresh_patch_goes_through_and_keeps_the_rest
                null_removes_a_member
                stale_patch_conflicts
                patch_without_a_change_keeps_the_version
                generation_counts_changes_of_the_spec
                identity_stays
                invalid_patch_is_refused_with_its_cause
            ]
            deletes [
                deletion_time_comes_first
                second_delete_finds_the_first
                finalizer_holds_the_object
                unmet_precondition_conflicts
                pods_go_before_their_cluster
            ]
            watches [
                picture_comes_first
                empty_scope_has_an_empty_picture
                changes_follow_in_order
                recreated_name_is_deleted_first
                scope_is_kept
                watch_and_list_agree
            ]
            life [
                pods_become_ready
                status_tells_of_readiness
                scale_is_followed
                suspension_takes_the_pods_until_it_ends
                cluster_of_another_controller_is_left_alone
                pods_keep_to_their_scope
            ]
        }
    };
    (@each $ground:path, $attributes:tt, $($room:ident [$($promise:ident)*])*) => {
        $($(promises! { @one $ground, $attributes, $room, $promise })*)*
    };
    (@one $ground:path, [$(#[$attribute:meta])*], $room:ident, $promise:ident) => {
        $(#[$attribute])*
        #[tokio::test]
        async fn $promise() -> $crate::contract::Outcome {
            let ground = $ground().await?;
            $crate::contract::$room::$promise(&ground).await
        }
    };
}

mod memory {
    use std::future::{Ready, ready};
    use std::time::Duration;

    use raygate::manager::memory::{Options, backend};

    use super::{Ground, Outcome};

    fn ground() -> Ready<Outcome<Ground>> {
        let options = Options {
            namespaces: vec!["home".to_owned(), "elsewhere".to_owned()],
            pod_start_delay: Duration::from_millis(5),
            pod_stop_delay: Duration::from_millis(5),
            ..Options::default()
        };
        let (namespace, elsewhere) = ("home".to_owned(), "elsewhere".to_owned());
        ready(Ok(Ground { backend: backend(options), namespace, elsewhere }))
    }

    promises!(ground);
}
