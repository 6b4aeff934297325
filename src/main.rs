//! The command `raygate`: reads the command line, starts the logs, runs, and turns an error into an exit code.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use raygate::access::NewToken;
use raygate::config::{Command, Config, NewTokenOptions, TokenVerb, Verb};
use raygate::{app, telemetry};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Exit code of a start that can't succeed as it was asked for: bad flags or files.
const BAD_START: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let config = match Command::parse().into_verb() {
        Verb::Serve(config) => *config,
        Verb::Token(TokenVerb::New(options)) => return new_token(&options),
    };
    telemetry::start(config.log_format);
    match run(config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, sentence)) => {
            eprintln!("raygate: {sentence}");
            ExitCode::from(code)
        }
    }
}

/// Makes a token: it is shown to whoever asks, and its line is written for the file.
fn new_token(options: &NewTokenOptions) -> ExitCode {
    match NewToken::make(&options.user, &options.groups, options.days, options.note.as_deref()) {
        Ok(NewToken { token, line }) => {
            if let Err(error) = writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush()) {
                eprintln!("raygate: the line can't be written, so there is no token: {error}");
                return ExitCode::FAILURE;
            }
            eprintln!("The token, which is shown this once: {token}");
            ExitCode::SUCCESS
        }
        Err(sentence) => {
            eprintln!("raygate: {sentence}");
            ExitCode::from(BAD_START)
        }
    }
}

async fn run(config: Config) -> Result<(), (u8, String)> {
    let bad_start = |sentence: String| (BAD_START, sentence);
    let broken = |error: std::io::Error| (1, error.to_string());
    let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;

    let address = config.listen;
    let built = app::build(config).await.map_err(bad_start)?;
    let is_open = built.app.service.access.is_open();
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| bad_start(format!("{address} can't be listened on: {error}")))?;
    let url = format!("http://{}", listener.local_addr().map_err(broken)?);
    println!("listening on {url}");
    std::io::stdout().flush().map_err(broken)?;
    eprintln!("Documentation to read and try: {url}/docs/");
    let token = if is_open { "" } else { "-H \"Authorization: Bearer $TOKEN\" " };
    eprintln!("A first cluster:  curl {token}--json '{{\"name\": \"demo\"}}' {url}/clusters");
    eprintln!("Watch it start:   curl {token}-N {url}/watch");

    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // A second signal ends the process at once.
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(1);
        });
    };
    app::serve(built, listener, stop).await.map_err(|sentence| (1, sentence))
}
