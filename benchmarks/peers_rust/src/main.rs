//! What a reflector of kube-rs costs on the same server: a first list, or an event of a watch.
//!
//! ```text
//! peers_rust --what sync --kubeconfig FILE --kind pods --way list
//! peers_rust --what follow --kubeconfig FILE --kind configmaps --events 400
//! peers_rust --what arrivals --kubeconfig FILE --events 400 --beside pods
//! ```
//!
//! `--what arrivals` prints for each event of a configmap when it was written and when it was there, in seconds since
//! 1970; with `--beside pods`, pods are listed meanwhile. The others print one line of JSON as benchmarks/real_client.py
//! does: CPU microseconds (user and system, all threads) of an object or event, and of a sync the memory. kube-rs decodes every object whole, into a struct, and asks for JSON.

use std::{collections::HashMap, env, error::Error, fmt::Debug, fs, hash::Hash};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{pin_mut, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{reflector, watcher, WatchStreamExt};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;

type Failure = Box<dyn Error + Send + Sync>;

const WARM: u64 = 20; // events that do not count, as in real_client.py

/// CPU seconds of this process, user and system.
fn cpu() -> f64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The line of /proc/self/status of that name, in bytes; 0 if this is not Linux.
fn memory(name: &str) -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|size| size.parse().ok()).unwrap_or(0.0) * 1024.0
}

async fn measure<K>(client: Client, options: &HashMap<String, String>) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let events: u64 = options.get("events").map_or(Ok(0), |number| number.parse())?;
    let config = match options.get("way").map(String::as_str) {
        Some("watch_list") => watcher::Config::default().streaming_lists(),
        _ => watcher::Config::default(),
    };
    let (store, writer) = reflector::store::<K>();
    let (start, base) = (cpu(), memory("VmRSS:"));
    let stream = reflector(writer, watcher(Api::<K>::all(client), config));
    pin_mut!(stream);
    let (mut seen, mut began) = (0, 0.0);
    while let Some(event) = stream.next().await {
        match event? {
            watcher::Event::InitDone if options["what"] == "sync" => {
                let objects = store.len() as f64;
                let (us, peak) = ((cpu() - start) / objects * 1e6, memory("VmHWM:"));
                let (most, process) = ((peak - base) / objects, peak / objects);
                println!(r#"{{"us": {us}, "objects": {objects}, "peak": {most}, "process": {process}}}"#);
                return Ok(());
            }
            watcher::Event::InitDone => println!("ready"),
            watcher::Event::Apply(_) => {
                seen += 1;
                if seen == WARM {
                    began = cpu();
                }
                if seen == WARM + events {
                    println!(r#"{{"us": {}}}"#, (cpu() - began) / events as f64 * 1e6);
                    return Ok(());
                }
            }
            _ => {}
        }
    }
    Err("the watch ended".into())
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Lists pods into a store of their own, and returns when that began and ended.
async fn list_pods(client: Client) -> Result<[f64; 2], Failure> {
    let began = now();
    let (_store, writer) = reflector::store::<Pod>();
    let stream = reflector(writer, watcher(Api::<Pod>::all(client), watcher::Config::default()));
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        if let watcher::Event::InitDone = event? {
            return Ok([began, now()]);
        }
    }
    Err("the watch of pods ended".into())
}

/// Follows configmaps, and prints the times of so many events once they have come.
async fn arrivals(client: Client, options: &HashMap<String, String>) -> Result<(), Failure> {
    let events: usize = options["events"].parse()?;
    let (_store, writer) = reflector::store::<ConfigMap>();
    // As kube-rs recommends for long watches: errors are retried with backoff.
    let stream = reflector(writer, watcher(Api::<ConfigMap>::all(client.clone()), watcher::Config::default()))
        .default_backoff();
    pin_mut!(stream);
    let mut pairs: Vec<[f64; 2]> = Vec::with_capacity(events);
    let mut listing = None;
    while pairs.len() < events {
        match stream.next().await {
            Some(Ok(watcher::Event::InitDone)) => println!("ready"),
            Some(Ok(watcher::Event::Apply(map))) => {
                let arrived = now();
                let at = map.metadata.annotations.as_ref().and_then(|found| found.get("bench.example.com/at"));
                if let Some(at) = at.and_then(|text| text.parse().ok()) {
                    pairs.push([at, arrived]);
                }
                if pairs.len() == WARM as usize && options.contains_key("beside") && listing.is_none() {
                    listing = Some(tokio::spawn(list_pods(client.clone())));
                }
            }
            Some(_) => {}
            None => return Err("the watch ended".into()),
        }
    }
    let listed: Vec<f64> = match listing {
        Some(task) => task.await??.to_vec(),
        None => Vec::new(),
    };
    println!(r#"{{"arrivals": {pairs:?}, "listing": {listed:?}}}"#);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = env::args().skip(1).collect();
    let options: HashMap<String, String> =
        words.chunks_exact(2).map(|pair| (pair[0].trim_start_matches("--").into(), pair[1].clone())).collect();
    let kubeconfig = Kubeconfig::read_from(&options["kubeconfig"])?;
    let client = Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?;
    client.apiserver_version().await?; // the handshake is not measured
    let measured = async {
        match options["kind"].as_str() {
            _ if options["what"] == "arrivals" => arrivals(client, &options).await,
            "configmaps" => measure::<ConfigMap>(client, &options).await,
            _ => measure::<Pod>(client, &options).await,
        }
    };
    tokio::time::timeout(Duration::from_secs(300), measured).await?
}
