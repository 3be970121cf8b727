//! What every back-end must do, run on each of them.
//!
//! A new back-end adds an arm to `fixture::Data`, a constructor to `fixture::Fixture` and
//! a module to the macro below; the compiler names the other places in `fixture`. Only the
//! back-end in memory lacks a second process on the same data, a restart, a crash and a
//! way to break the store: cases that need one skip it. All other back-ends must have
//! them.

#![cfg(test)]

#[path = "conformance/approvals.rs"]
mod approvals;
#[path = "conformance/crash.rs"]
mod crash;
#[path = "conformance/fixture.rs"]
mod fixture;
#[path = "conformance/leases.rs"]
mod leases;
#[path = "conformance/ledger.rs"]
mod ledger;
#[path = "conformance/log.rs"]
mod log;
#[path = "conformance/people.rs"]
mod people;
#[path = "conformance/pruning.rs"]
mod pruning;
#[path = "conformance/registry.rs"]
mod registry;

/// Makes a test of each case on each back-end.
macro_rules! on_every_back_end {
    ($($group:ident :: $case:ident,)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::$group::$case(crate::fixture::Fixture::memory()).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::$group::$case(crate::fixture::Fixture::sqlite()).await;
            })*
        }
        /// The same, with callers that commit on their own threads.
        mod sqlite_leaders {
            $(#[test]
            fn $case() {
                crate::fixture::run_on_committing_threads(async {
                    crate::$group::$case(crate::fixture::Fixture::sqlite()).await;
                });
            })*
        }
    };
}

on_every_back_end! {
    ledger::a_limit_of_n_admits_exactly_n,
    ledger::charges_are_made_all_or_none,
    ledger::two_charges_to_one_counter_are_both_counted,
    ledger::concurrent_reservations_never_exceed_the_limit,
    ledger::processes_share_one_limit,
    ledger::a_reservation_is_made_once,
    ledger::a_reservation_is_made_once_across_a_restart,
    ledger::a_reservation_is_given_back_once_across_a_restart,
    ledger::a_released_reservation_gives_back_to_its_window,
    ledger::concurrent_releases_give_back_once,
    ledger::a_settled_reservation_cannot_be_released,
    ledger::a_settled_reservation_is_charged_again,
    ledger::the_store_decides_which_window_is_charged,
    ledger::budgets_add_exact_amounts,
    ledger::scopes_and_owners_have_counters_of_their_own,
    ledger::readings_match_a_model_through_random_operations,
    ledger::a_refused_reservation_records_nothing,
    ledger::a_reservation_that_cannot_be_recorded_charges_nothing,
    ledger::a_closed_store_refuses,
    ledger::a_clock_that_jumps_gives_no_other_window,
    leases::n_calls_at_a_time_fit,
    leases::leases_and_charges_are_made_all_or_none,
    leases::scopes_and_owners_have_places_of_their_own,
    leases::places_are_never_given_twice,
    leases::a_place_is_free_at_once,
    leases::a_caller_that_goes_away_keeps_no_place,
    leases::a_failing_store_frees_places_when_it_recovers,
    leases::a_process_that_ends_frees_its_places,
    leases::a_killed_process_frees_its_places,
    crash::a_killed_process_loses_nothing_that_was_answered,
    approvals::the_same_call_joins_the_one_that_waits,
    approvals::enough_different_people_must_approve,
    approvals::one_denial_is_enough,
    approvals::an_approval_is_consumed_once,
    approvals::an_expired_call_cannot_be_decided_or_consumed,
    approvals::expiry_is_recorded_once,
    approvals::a_pruned_held_call_was_recorded_as_expired,
    approvals::held_calls_are_bounded_for_each_grant,
    log::a_record_comes_back_as_it_was_written,
    log::the_chain_covers_the_exported_text,
    log::pages_follow_each_other_in_both_directions,
    log::each_filter_finds_exactly_its_records,
    log::filters_combine_with_time_and_position,
    log::a_request_finds_its_decision_and_its_outcome,
    log::deferred_records_are_written_soon,
    log::a_cursor_survives_its_text,
    pruning::old_records_go_and_the_rest_verifies,
    pruning::anchors_grow_old_and_are_pruned_too,
    pruning::a_log_that_is_too_large_loses_its_oldest_records,
    pruning::filters_find_what_is_left,
    pruning::a_clock_that_jumps_prunes_nothing_until_it_is_confirmed,
    pruning::records_that_must_be_kept_stay_whatever_the_size,
    pruning::a_grant_that_fills_the_log_leaves_space_to_others,
    registry::servers_come_back_as_they_were_put,
    registry::only_http_servers_can_be_stored,
    registry::the_last_policy_put_is_in_force_and_all_versions_are_kept,
    registry::a_servers_policies_go_with_it,
    registry::grants_and_held_calls_do_not_outlive_their_server,
    registry::declared_servers_are_known_until_they_are_removed,
    registry::a_token_finds_its_grant,
    registry::a_rotated_token_replaces_the_old_one,
    registry::an_old_token_works_until_the_overlap_ends,
    registry::an_edited_grant_keeps_what_was_not_changed,
    registry::labels_of_grants_are_unique_until_they_are_revoked,
    registry::the_last_use_of_a_grant_is_the_latest_noted,
    registry::a_revoked_or_expired_grant_is_not_valid,
    registry::each_change_is_recorded_with_its_actor,
    registry::changes_are_announced_with_their_epoch,
    people::people_come_back_as_they_were_put,
    people::an_invitation_is_accepted_once_and_in_time,
    people::the_last_admin_stays,
    people::two_admins_cannot_remove_each_other_at_once,
    people::sessions_end_with_their_password_and_their_person,
    people::sessions_are_bounded_for_each_person,
    people::an_api_token_finds_its_person,
    registry::changes_of_other_processes_are_announced_as_foreign,
}
