//! Who gets what answer, on a real control plane.

use kube::api::DeleteParams;

use super::*;
use crate::matrix::{Places, matrix};

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn everybody_gets_their_answer() -> Outcome {
    let Bed { client, namespace: plain } = Bed::new("matrix").await?;
    let [private, elsewhere] = [fresh(&client, "matrix").await?, fresh(&client, "matrix").await?];
    let options = Options {
        kubeconfig: Some(kubeconfig()?),
        context: None,
        call_timeout: Duration::from_secs(30),
        watch_timeout_seconds: 25,
        watch_backoff_max: Duration::from_secs(1),
    };
    let made = [plain.clone(), private.clone(), elsewhere.clone()];
    let nowhere = format!("{plain}-none");
    let filled = matrix(backend(options).await?, Places { plain, private, elsewhere, nowhere }).await;
    let namespaces: Api<Namespace> = Api::all(client);
    for name in made {
        namespaces.delete(&name, &DeleteParams::default()).await?;
    }
    filled
}
