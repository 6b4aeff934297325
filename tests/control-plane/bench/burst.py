#!/usr/bin/env python3
"""N RayClusters POSTed at once over 16 connections (kubectl itself adds about 95 ms per object); time to all ready by watch-free polling; then deletecollection."""
import base64, http.client, json, os, ssl, subprocess, sys, threading, time
n = int(sys.argv[1]) if len(sys.argv) > 1 else 100
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__))); run = os.environ.get("RUN", here + "/run")
os.environ["PATH"] = here + "/bin:" + os.environ["PATH"]
cfg = json.loads(subprocess.check_output(["kubectl", "config", "view", "--raw", "-o", "json", "--kubeconfig", run + "/kubeconfig"]))
tok, cl = cfg["users"][0]["user"]["token"], cfg["clusters"][0]["cluster"]
ctx = ssl.create_default_context(cadata=base64.b64decode(cl["certificate-authority-data"]).decode())
host = cl["server"].split("//")[1]
def conn(): return http.client.HTTPSConnection(host, context=ctx)
def call(c, method, path, body=None):
    c.request(method, path, json.dumps(body) if body else None, {"Authorization": "Bearer " + tok, "Content-Type": "application/json"})
    r = c.getresponse(); d = r.read(); return r.status, d
ns = f"burst-{os.getpid()}"; c = conn()
call(c, "POST", "/api/v1/namespaces", {"metadata": {"name": ns}})
path = f"/apis/ray.io/v1/namespaces/{ns}/rayclusters"
def tmpl(name): return {"spec": {"containers": [{"name": name, "image": "rayproject/ray:2.46.0", "resources": {"requests": {"cpu": "1", "memory": "1G"}, "limits": {"cpu": "1", "memory": "1G"}}}]}}
def body(i): return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": f"rc-{i}"}, "spec": {"rayVersion": "2.46.0", "headGroupSpec": {"rayStartParams": {}, "template": tmpl("ray-head")}, "workerGroupSpecs": [{"groupName": "w", "replicas": 1, "minReplicas": 1, "maxReplicas": 5, "rayStartParams": {}, "template": tmpl("ray-worker")}]}}
pid = int(open(run + "/pid").read())
def rss(): return next(int(l.split()[1]) // 1024 for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS"))
def cpu(): f = open(f"/proc/{pid}/stat").read().split(); return (int(f[13]) + int(f[14])) / 100
lat, todo, lock = [], list(range(n)), threading.Lock()
def work():
    k = conn()
    while True:
        with lock:
            if not todo: return
            i = todo.pop()
        t = time.time(); s, d = call(k, "POST", path, body(i)); lat.append(time.time() - t)
        if s != 201: print(s, d[:200])
r0, c0, t0 = rss(), cpu(), time.time()
ts = [threading.Thread(target=work) for _ in range(16)]
[t.start() for t in ts]; [t.join() for t in ts]
t1 = time.time(); lat.sort()
while True:
    items = json.loads(call(c, "GET", path)[1])["items"]
    if sum(x.get("status", {}).get("state") == "ready" for x in items) >= n: break
    time.sleep(0.2)
t2 = time.time()
print(f"posted {n} in {t1-t0:.2f}s (p50 {lat[n//2]*1000:.0f} ms, max {lat[-1]*1000:.0f} ms), all ready {t2-t0:.2f}s, cpu {cpu()-c0:.1f}s, rss {r0} -> {rss()} MiB")
call(c, "DELETE", path)
while json.loads(call(c, "GET", f"/api/v1/namespaces/{ns}/pods")[1])["items"]: time.sleep(0.1)
print(f"deletecollection to no pods {time.time()-t2:.2f}s")
call(c, "DELETE", f"/api/v1/namespaces/{ns}")
