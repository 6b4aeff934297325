//! A policy file, and a token file.

use raygate::access::{Access, Action, Identity, Policy, StaticTokens, Target};

/// What is taken gives nothing to somebody whom it doesn't name, and never what isn't a role's.
pub(crate) fn run(data: &[u8]) {
    // Whether it can be read is all that a token file tells.
    let _ = StaticTokens::default().load(data);
    let Ok(policy) = Policy::read(data) else { return };
    let text = String::from_utf8_lossy(data);
    let access = Access::closed(Vec::new(), "default".to_owned(), Vec::new(), policy);
    // Nobody is called so; without a credential, they aren't in the group of all that have one.
    let nobody = Identity { user: "nobody-\u{1f980}".to_owned(), ..Identity::anonymous() };
    if text.contains(&nobody.user) || text.contains('\\') {
        return;
    }
    let caller = access.caller(nobody);
    assert_eq!(caller.best_role(), None);
    for action in [Action::ListClusters, Action::CreateCluster, Action::DeleteCluster, Action::SetOwner] {
        for target in [Target::Service, Target::Namespace("default")] {
            assert!(access.authorize(&caller, action, target).is_err());
        }
    }
}
