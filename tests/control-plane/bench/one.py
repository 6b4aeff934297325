#!/usr/bin/env python3
"""One RayCluster (head + 1 worker): time from POST to ready, and from DELETE to no pods, 5 times."""
import base64, http.client, json, os, ssl, subprocess, time
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__))); run = os.environ.get("RUN", here + "/run")
os.environ["PATH"] = here + "/bin:" + os.environ["PATH"]
cfg = json.loads(subprocess.check_output(["kubectl", "config", "view", "--raw", "-o", "json", "--kubeconfig", run + "/kubeconfig"]))
tok, cl = cfg["users"][0]["user"]["token"], cfg["clusters"][0]["cluster"]
c = http.client.HTTPSConnection(cl["server"].split("//")[1], context=ssl.create_default_context(cadata=base64.b64decode(cl["certificate-authority-data"]).decode()))
def call(method, path, body=None):
    c.request(method, path, json.dumps(body) if body else None, {"Authorization": "Bearer " + tok, "Content-Type": "application/json"})
    r = c.getresponse(); return json.loads(r.read())
t = lambda n: {"spec": {"containers": [{"name": n, "image": "rayproject/ray:2.55.0"}]}}
P = "/apis/ray.io/v1/namespaces/team-a/rayclusters"
for i in range(5):
    n = f"one-{i}"; t0 = time.time()
    call("POST", P, {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": n}, "spec": {"rayVersion": "2.55.0", "headGroupSpec": {"rayStartParams": {}, "template": t("h")}, "workerGroupSpecs": [{"groupName": "w", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "rayStartParams": {}, "template": t("w")}]}})
    while call("GET", f"{P}/{n}").get("status", {}).get("state") != "ready": time.sleep(0.01)
    t1 = time.time(); call("DELETE", f"{P}/{n}")
    while call("GET", f"/api/v1/namespaces/team-a/pods?labelSelector=ray.io/cluster={n}")["items"]: time.sleep(0.01)
    print(f"ready {t1-t0:.2f} s, deleted {time.time()-t1:.2f} s")
