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
pub(crate) mod failures;
mod follow;
pub(crate) mod life;
pub(crate) mod objects;
mod samples;
pub(crate) mod watches;
pub(crate) mod writes;

/// What a promise answers: nothing, or how it was broken.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Where one promise is tried: a backend, and two namespaces in it that nobody else uses. The first has a ConfigMap and a
/// Secret `present` with the key `key`.
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
                crd_defaults_appear_deep_inside
                nulls_count_as_left_out
                unknown_fields_are_refused
                invalid_values_are_refused_deep_inside
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
                unknown_fields_of_a_patch_are_refused
                undecodable_metadata_is_refused
                manager_of_a_cluster_stays
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
            failures [
                unknown_image_keeps_a_worker_waiting
                mistyped_image_of_the_head_is_told_in_the_status
                private_image_needs_a_login
                image_names_are_judged
                missing_references_keep_a_container_waiting
                optional_references_may_be_missing
                missing_volume_keeps_the_pod_creating
                failing_sidecar_is_restarted_with_back_off
                failing_command_keeps_ray_from_starting
                missing_programs_are_named
                image_without_ray_says_so
                failing_init_container_stops_the_pod
                too_much_memory_is_killed
                too_many_cpus_fit_nowhere
                too_much_of_several_things_fits_nowhere
                unmatched_node_selector_fits_nowhere
                unschedulable_head_is_unknown_to_the_operator
                corrected_image_helps_new_pods_alone
                finished_worker_is_replaced
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
    use std::time::Duration;

    use raygate::manager::memory::{NodeSwitch, Options, backend_with_switch};

    use super::failures::{Machines, lost_machine_makes_its_pods_unready};
    use super::{Ground, Outcome};

    #[expect(clippy::unused_async, reason = "other grounds wait")]
    async fn ground() -> Outcome<Ground> {
        Ok(ground_with_switch()?.0)
    }

    fn ground_with_switch() -> Outcome<(Ground, NodeSwitch)> {
        let options = Options {
            namespaces: vec!["home".to_owned(), "elsewhere".to_owned()],
            pod_start_delay: Duration::from_millis(5),
            pod_stop_delay: Duration::from_millis(5),
            // A back-off of ten seconds takes a tenth of one.
            back_off: Duration::from_millis(100),
            objects: vec!["ConfigMap/present:key".parse()?, "Secret/present:key".parse()?],
            ..Options::default()
        };
        let (namespace, elsewhere) = ("home".to_owned(), "elsewhere".to_owned());
        let (backend, machines) = backend_with_switch(options);
        Ok((Ground { backend, namespace, elsewhere }, machines))
    }

    impl Machines for NodeSwitch {
        async fn set_silent(&self, machine: &str, silent: bool) -> Outcome {
            if silent {
                self.down(machine);
            } else {
                self.up(machine);
            }
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_lost_machine_makes_its_pods_unready() -> Outcome {
        let (ground, machines) = ground_with_switch()?;
        lost_machine_makes_its_pods_unready(&ground, &machines).await
    }

    promises!(ground);
}
