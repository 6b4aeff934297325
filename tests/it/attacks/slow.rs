//! Connections that take their time: they are cut, and nobody waits for them.

use futures::future::try_join_all;
use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{DRIP, Said, answers, start};
use crate::support::{Outcome, PATIENCE};

/// Sends this at once, then this byte again and again, until the connection is closed; what was answered. `None` in
/// place of the byte: nothing.
async fn drip(address: std::net::SocketAddr, head: String, byte: Option<u8>) -> Outcome<Vec<Said>> {
    let (mut reader, mut writer) = TcpStream::connect(address).await?.into_split();
    writer.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    let dripping = async {
        loop {
            match timeout(DRIP, reader.read_buf(&mut answer)).await {
                Ok(Ok(1..)) => {}
                Ok(Ok(0) | Err(_)) => return,
                // Nothing yet. A peer that has closed shows it when it is read from.
                Err(_) => {
                    if let Some(byte) = byte {
                        let _ = writer.write_all(&[byte]).await;
                    }
                }
            }
        }
    };
    timeout(PATIENCE, dripping).await.map_err(|_| format!("it was never closed: {head:?}"))?;
    answers(&String::from_utf8_lossy(&answer))
}

/// The deadlines of the tests here.
const QUICK: [&str; 4] = ["--header-timeout-seconds", "1", "--request-timeout-seconds", "1"];

/// Has 200 such connections opened, and others served meanwhile; what the 200 were answered.
async fn besieged(head: impl Fn(&str) -> String, byte: Option<u8>) -> Outcome<Vec<Vec<Said>>> {
    let guarded = start(&QUICK).await?;
    let head = head(&guarded.bearer("bob"));
    let slow: Vec<_> = (0..200).map(|_| tokio::spawn(drip(guarded.address, head.clone(), byte))).collect();
    let mut served = 0;
    while !slow.iter().all(tokio::task::JoinHandle::is_finished) || served == 0 {
        let answer = guarded.ask("alice", Method::GET, "/clusters", "").await?;
        assert!(answer.status == 200 || answer.status == 429, "{answer:?}");
        served += u32::from(answer.status == 200);
        assert_eq!(guarded.get("/health").await?.status, 200);
        tokio::time::sleep(DRIP).await;
    }
    assert!(served > 0, "alice waited for bob");
    try_join_all(slow).await?.into_iter().collect()
}

#[tokio::test]
async fn slow_heads_are_cut() -> Outcome {
    let head = |bearer: &str| format!("GET /whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer}\r\nX-");
    for said in besieged(head, Some(b'a')).await? {
        assert!(said.iter().all(|said| said.status == 408), "{said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn slow_bodies_are_cut() -> Outcome {
    let head = |bearer: &str| {
        let head = format!("POST /clusters HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer}\r\n");
        format!("{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{")
    };
    let said = besieged(head, Some(b' ')).await?;
    let statuses: Vec<_> = said.iter().flatten().map(|said| said.status).collect();
    assert!(statuses.len() == 200, "each is told: {statuses:?}");
    // Too slow, so that nothing has been done; or too many of them at once.
    assert!(statuses.iter().all(|status| [503, 429].contains(status)), "{statuses:?}");
    assert!(statuses.iter().any(|status| *status != 429), "{statuses:?}");
    Ok(())
}

#[tokio::test]
async fn idle_connections_are_closed() -> Outcome {
    for said in besieged(|_| String::new(), None).await? {
        assert!(said.is_empty(), "{said:?}");
    }
    let asked = |_: &str| "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned();
    for said in besieged(asked, None).await? {
        let statuses: Vec<_> = said.iter().map(|said| said.status).collect();
        assert_eq!(statuses, [200]);
    }
    Ok(())
}

#[tokio::test]
async fn what_begins_like_http2_is_cut_too() -> Outcome {
    let preface = |_: &str| "PRI * HTTP/2.0\r\n\r\nSM".to_owned();
    for said in besieged(preface, None).await? {
        assert!(said.is_empty(), "{said:?}");
    }
    Ok(())
}
