package check

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// network is this test's own part of the loopback network: every pod has an
// address there, and all ports stay what they are.
type network struct{ base string }

// newNetwork finds a part that nobody uses. Only Linux answers on all of
// 127.0.0.0/8.
func newNetwork(t *testing.T) network {
	t.Helper()
	for i := range 200 {
		n := network{fmt.Sprintf("127.%d.%d.", 64+os.Getpid()%128, (os.Getpid()/128+i)%256)}
		l, err := net.Listen("tcp", n.host(1)+":4222")
		if err != nil {
			continue
		}
		_ = l.Close()
		return n
	}
	t.Skip("this system has no loopback addresses beside 127.0.0.1")
	return network{}
}

func (n network) host(i int) string { return n.base + strconv.Itoa(i) }

// process is a running program with its log.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *logged
	end  chan error
	over bool
}

// logged is a buffer that a process writes and a test reads.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// tail is the end of the log, for a failure's message.
func (l *logged) tail() string {
	s := l.String()
	return s[max(0, len(s)-3000):]
}

// start runs a program with exactly that environment until the test ends.
func start(t *testing.T, name, path string, args, env []string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(path, args...), log: &logged{}, end: make(chan error, 1)}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() { p.end <- p.cmd.Wait() }()
	t.Cleanup(func() {
		if !p.over {
			_ = p.cmd.Process.Kill()
			<-p.end
		}
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.log.tail())
		}
	})
	return p
}

// stop sends SIGTERM and wants status 0 within the grace that the pod has.
func (p *process) stop(t *testing.T, grace time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("stopping %s: %v", p.name, err)
	}
	select {
	case err := <-p.end:
		p.over = true
		if err != nil {
			t.Errorf("%s ended with %v", p.name, err)
		}
	case <-time.After(grace):
		t.Errorf("%s is still there %s after SIGTERM", p.name, grace)
	}
}

// cluster is what a rendering runs in: secrets and the addresses of services and
// pods.
type cluster struct {
	objects []object
	net     network
	dir     string
	hosts   *strings.Replacer // names of services and pods to addresses
}

// secretValue is the content of every secret: one value for each key.
func secretValue(key string) string { return "p" + strings.ReplaceAll(key, "-", "") }

// environment is a container's as Kubernetes would make it.
func (c *cluster) environment(t *testing.T, pod string, container corev1.Container) []string {
	t.Helper()
	known := map[string]string{}
	var env []string
	for _, e := range container.Env {
		v := e.Value
		if from := e.ValueFrom; from != nil {
			switch {
			case from.SecretKeyRef != nil:
				v = secretValue(from.SecretKeyRef.Key)
			case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
				v = pod
			case from.FieldRef != nil:
				v = "here"
			default:
				t.Fatalf("%s: %s comes from something that this test does not know", pod, e.Name)
			}
		}
		for name, value := range known {
			v = strings.ReplaceAll(v, "$("+name+")", value)
		}
		known[e.Name] = v
		env = append(env, e.Name+"="+c.hosts.Replace(v))
	}
	return env
}

// files writes what is mounted from config maps and gives each mount's place in
// this test's folder.
func (c *cluster) files(t *testing.T, pod string, spec corev1.PodSpec, container corev1.Container, edit func(string) string) *strings.Replacer {
	t.Helper()
	var places []string
	for _, m := range container.VolumeMounts {
		place := filepath.Join(c.dir, pod, m.MountPath)
		places = append(places, m.MountPath, place)
		var source *corev1.ConfigMap
		for _, v := range spec.Volumes {
			if v.Name == m.Name && v.ConfigMap != nil {
				source = find[*corev1.ConfigMap](t, c.objects, v.ConfigMap.Name)
			}
		}
		dir := place
		if m.SubPath != "" {
			dir = filepath.Dir(place)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if source == nil {
			continue
		}
		for name, text := range source.Data {
			file := filepath.Join(dir, name)
			if m.SubPath != "" {
				if name != m.SubPath {
					continue
				}
				file = place
			}
			if err := os.WriteFile(file, []byte(edit(text)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return strings.NewReplacer(places...)
}

// run starts a container of a pod at an address. Changed are only places of files
// and addresses.
func (c *cluster) run(t *testing.T, pod, binary string, ip int, template corev1.PodTemplateSpec, edit func(string) string) *running {
	t.Helper()
	container := template.Spec.Containers[0]
	places := c.files(t, pod, template.Spec, container, edit)
	var args []string
	for _, a := range container.Args {
		a = places.Replace(a)
		if port, ok := strings.CutPrefix(a, "--metrics=:"); ok {
			a = "--metrics=" + c.net.host(ip) + ":" + port
		}
		args = append(args, a)
	}
	r := &running{host: c.net.host(ip), container: container}
	r.launch = func() { r.process = start(t, pod, binary, args, c.environment(t, pod, container)) }
	r.launch()
	if s := template.Spec.TerminationGracePeriodSeconds; s != nil {
		r.grace = time.Duration(*s) * time.Second
	}
	return r
}

// running is a container of a pod.
type running struct {
	*process
	host      string
	container corev1.Container
	grace     time.Duration
	launch    func()
	restarts  int
}

// again starts the container anew when it has ended, as the kubelet does. Workers
// that start together with a fresh cluster may find it without a leader and leave.
func (r *running) again(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.end:
		r.over = true
		if r.restarts++; r.restarts > 5 {
			t.Fatalf("%s ends again and again: %v\n%s", r.name, err, r.log.tail())
		}
		t.Logf("%s has ended (%v) and is started again: %s", r.name, err, r.log.tail())
		r.launch()
	default:
	}
}

// probe asks once what a probe of the container asks.
func (r *running) probe(ctx context.Context, t *testing.T, p *corev1.Probe) error {
	r.again(t)
	port := p.HTTPGet.Port.IntValue()
	for _, named := range r.container.Ports {
		if named.Name == p.HTTPGet.Port.StrVal {
			port = int(named.ContainerPort)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, max(time.Duration(p.TimeoutSeconds)*time.Second, time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d%s", r.host, port, p.HTTPGet.Path), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode < 200 || res.StatusCode >= 400 {
		return fmt.Errorf("%s: %s", p.HTTPGet.Path, res.Status)
	}
	return nil
}

// ready waits as long as the startup probe allows, then for the readiness probe,
// and asks the liveness probe once.
func (r *running) ready(t *testing.T) {
	t.Helper()
	s := r.container.StartupProbe
	await(t, r.name+" started", time.Duration(s.PeriodSeconds*s.FailureThreshold)*time.Second, func(ctx context.Context) error { return r.probe(ctx, t, s) })
	await(t, r.name+" ready", time.Minute, func(ctx context.Context) error { return r.probe(ctx, t, r.container.ReadinessProbe) })
	await(t, r.name+" alive", 10*time.Second, func(ctx context.Context) error { return r.probe(ctx, t, r.container.LivenessProbe) })
}

// await tries until f succeeds or the time is over.
func await(t *testing.T, what string, within time.Duration, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
	}
}
