package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/zkd-project/zkd/config"
)

// deployed is the configuration of a server that is started with the variables, away from the
// folders of this machine.
func deployed(t *testing.T, vars map[string]string, host string) *config.Config {
	t.Helper()
	env := []string{"ZOO_CONF_DIR=" + t.TempDir()}
	for name, text := range vars {
		env = append(env, name+"="+text)
	}
	c, err := newContainer(env, func() (string, error) { return host, nil })
	require.NoError(t, err)
	require.Empty(t, c.notes)
	sources := c.sources(env)
	read := sources.ReadFile
	sources.ReadFile = func(name string) ([]byte, error) {
		if name == c.myIDFile { // this machine may have one there
			return []byte(c.myID + "\n"), nil
		}
		return read(name)
	}
	cfg, warnings, err := config.Load(sources)
	require.NoError(t, err)
	for _, w := range warnings { // none about a variable that names no key
		require.Contains(t, []string{"zkd.peerInsecure", "admin.serverAddress"}, w.Key, w.String())
	}
	return cfg
}

func readDeploy(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	require.NoError(t, err)
	return b
}

func TestDockerfileAgreesWithTheEntrypoint(t *testing.T) {
	said := map[string][]string{}
	for line := range strings.Lines(strings.ReplaceAll(string(readDeploy(t, "Dockerfile")), "\\\n", " ")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		said[word] = append(said[word], rest)
	}
	require.Equal(t, "scratch", said["FROM"][1])
	require.Equal(t, []string{"1000:1000"}, said["USER"])
	require.Equal(t, []string{`["/usr/local/bin/zkd"]`}, said["ENTRYPOINT"])
	require.Equal(t, []string{`["` + entrypointCommand().Name() + `"]`}, said["CMD"])
	require.Contains(t, said["HEALTHCHECK"][0], `CMD ["/usr/local/bin/zkd", "`+healthcheckCommand().Name()+`"]`)
	vars := map[string]string{}
	for _, pair := range strings.Fields(said["ENV"][0]) {
		name, text, _ := strings.Cut(pair, "=")
		vars[name] = text
	}
	require.Equal(t, defaultConfDir, vars[envConfDir])
	for _, s := range envSettings {
		if text, set := vars[s.variable]; set {
			require.Equal(t, s.def, text, s.variable)
		}
	}
	delete(vars, envConfDir)
	cfg := deployed(t, vars, "")
	require.Equal(t, []string{fmt.Sprintf(`["%s", "%s"]`, cfg.DataDir, cfg.DataLogDir)}, said["VOLUME"])
	require.Equal(t, []string{fmt.Sprintf("%d %d %d", cfg.ClientPort, cfg.Cluster.Self().Peers[0].Port, cfg.Admin.Port)}, said["EXPOSE"])
}

func TestComposeFileIsACluster(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Hostname    string
			Environment map[string]string
			Ports       []string
			Volumes     []string
		}
	}
	require.NoError(t, yaml.Unmarshal(readDeploy(t, "compose.yaml"), &file))
	require.Len(t, file.Services, 3)
	seen := map[int]bool{}
	for name, s := range file.Services {
		cfg := deployed(t, s.Environment, "")
		require.True(t, cfg.Cluster.Ensemble)
		require.Len(t, cfg.Cluster.Members, 3)
		require.Equal(t, name, cfg.Cluster.Self().Peers[0].Host)
		require.Equal(t, name, s.Hostname)
		require.False(t, seen[cfg.Cluster.ServerID])
		seen[cfg.Cluster.ServerID] = true
		require.True(t, strings.HasSuffix(s.Ports[0], fmt.Sprintf(":%d", cfg.ClientPort)))
		require.True(t, slices.ContainsFunc(s.Volumes, func(v string) bool { return strings.HasSuffix(v, ":"+cfg.DataDir) }))
		require.True(t, slices.ContainsFunc(s.Volumes, func(v string) bool { return strings.HasSuffix(v, ":"+cfg.DataLogDir) }))
	}
}

// The sample is for three servers, and what is commented out in it is right, too.
func TestSampleConfigurationIsRight(t *testing.T) {
	sample := readDeploy(t, "zoo.cfg")
	all := regexp.MustCompile(`(?m)^#([a-zA-Z0-9.]+=)`).ReplaceAll(sample, []byte("$1"))
	require.NotEqual(t, string(sample), string(all))
	for _, text := range [][]byte{sample, all} {
		for id := 1; id <= 3; id++ {
			cfg, warnings, err := config.Load(config.Sources{File: "zoo.cfg", ReadFile: func(name string) ([]byte, error) {
				switch name {
				case "zoo.cfg":
					return text, nil
				case "/var/lib/zkd/myid":
					return fmt.Appendln(nil, id), nil
				case "/etc/zkd/admin-token":
					return []byte("a token of many characters\n"), nil
				}
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}})
			require.NoError(t, err)
			require.Empty(t, warnings)
			require.Equal(t, fmt.Sprintf("zkd%d.example.org", id), cfg.Cluster.Self().Peers[0].Host)
			require.Equal(t, 2181, cfg.ClientPort)
		}
	}
}

// What of Kubernetes' objects the manifests use. A field that is not here is a mistake in the
// manifest, or has to be looked up and added.
type (
	kubeMeta struct {
		Name string
	}
	kubeLabels struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	kubePort struct {
		Name       string
		Port       any
		TargetPort string `yaml:"targetPort"`
	}
	kubeObject struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   kubeMeta
		Spec       yaml.Node
	}
	kubeService struct {
		ClusterIP                string `yaml:"clusterIP"`
		PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
		Ports                    []kubePort
	}
	kubeBudget struct {
		MaxUnavailable int `yaml:"maxUnavailable"`
		Selector       kubeLabels
	}
	kubeNetwork struct {
		PodSelector kubeLabels `yaml:"podSelector"`
		PolicyTypes []string   `yaml:"policyTypes"`
		Ingress     []struct {
			From []struct {
				PodSelector kubeLabels `yaml:"podSelector"`
			}
			Ports []kubePort
		}
	}
	kubeProbe struct {
		HTTPGet struct {
			Path, Port string
		} `yaml:"httpGet"`
		PeriodSeconds    int `yaml:"periodSeconds"`
		TimeoutSeconds   int `yaml:"timeoutSeconds"`
		FailureThreshold int `yaml:"failureThreshold"`
	}
	kubeContainer struct {
		Name, Image string
		Args        []string
		Env         []struct {
			Name, Value string
			ValueFrom   struct {
				FieldRef struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		}
		Ports []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		LivenessProbe   kubeProbe `yaml:"livenessProbe"`
		ReadinessProbe  kubeProbe `yaml:"readinessProbe"`
		Resources       struct{ Requests, Limits map[string]string }
		SecurityContext struct {
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string }
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	kubeStatefulSet struct {
		ServiceName         string `yaml:"serviceName"`
		Replicas            int
		PodManagementPolicy string                `yaml:"podManagementPolicy"`
		UpdateStrategy      struct{ Type string } `yaml:"updateStrategy"`
		Template            struct {
			Spec struct {
				AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
				EnableServiceLinks            *bool `yaml:"enableServiceLinks"`
				TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
				SecurityContext               struct {
					RunAsNonRoot        bool                  `yaml:"runAsNonRoot"`
					RunAsUser           int                   `yaml:"runAsUser"`
					RunAsGroup          int                   `yaml:"runAsGroup"`
					FSGroup             int                   `yaml:"fsGroup"`
					FSGroupChangePolicy string                `yaml:"fsGroupChangePolicy"`
					SeccompProfile      struct{ Type string } `yaml:"seccompProfile"`
				} `yaml:"securityContext"`
				Affinity struct {
					PodAntiAffinity struct {
						Preferred []struct {
							Weight          int
							PodAffinityTerm struct {
								TopologyKey   string     `yaml:"topologyKey"`
								LabelSelector kubeLabels `yaml:"labelSelector"`
							} `yaml:"podAffinityTerm"`
						} `yaml:"preferredDuringSchedulingIgnoredDuringExecution"`
					} `yaml:"podAntiAffinity"`
				}
				Containers []kubeContainer
				Volumes    []struct {
					Name   string
					Secret struct {
						SecretName  string `yaml:"secretName"`
						DefaultMode int    `yaml:"defaultMode"`
					}
				}
			}
		}
		VolumeClaimTemplates []struct {
			Metadata kubeMeta
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
				Resources   struct{ Requests map[string]string }
			}
		} `yaml:"volumeClaimTemplates"`
	}
)

// kubeObjects reads all objects that the kustomization names, by kind and name.
func kubeObjects(t *testing.T) map[string]kubeObject {
	t.Helper()
	var list struct{ Resources []string }
	require.NoError(t, yaml.Unmarshal(readDeploy(t, "kubernetes/kustomization.yaml"), &list))
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	require.NoError(t, err)
	require.Len(t, list.Resources, len(files)-1, "each file but the kustomization is named in it")
	objects := map[string]kubeObject{}
	for _, name := range list.Resources {
		d := yaml.NewDecoder(bytes.NewReader(readDeploy(t, "kubernetes/"+name)))
		d.KnownFields(true)
		for {
			var o kubeObject
			err := d.Decode(&o)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
			require.NotContains(t, objects, o.Kind+"/"+o.Metadata.Name)
			objects[o.Kind+"/"+o.Metadata.Name] = o
		}
	}
	return objects
}

// spec decodes the spec of an object, and knows what version its kind has.
func spec[T any](t *testing.T, objects map[string]kubeObject, id, version string) T {
	t.Helper()
	o, found := objects[id]
	require.True(t, found, "%s is missing", id)
	require.Equal(t, version, o.APIVersion)
	text, err := yaml.Marshal(&o.Spec)
	require.NoError(t, err)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var s T
	require.NoError(t, d.Decode(&s), id)
	return s
}

func TestKubernetesManifestsFitTheConfiguration(t *testing.T) {
	objects := kubeObjects(t)
	set := spec[kubeStatefulSet](t, objects, "StatefulSet/zkd", "apps/v1")
	pod := set.Template.Spec
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	ports := map[string]int{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}

	for i := range set.Replicas {
		host := fmt.Sprintf("zkd-%d", i)
		cfg := deployed(t, podVariables(t, &c), host)
		require.Len(t, cfg.Cluster.Members, set.Replicas)
		self := cfg.Cluster.Self()
		require.Equal(t, host+"."+set.ServiceName+".prod.svc", self.Peers[0].Host)
		require.Equal(t, map[string]int{
			"client": cfg.ClientPort, "peer": self.Peers[0].Port, "admin": cfg.Admin.Port, "metrics": cfg.Metrics.HTTPPort,
		}, ports)
		require.Equal(t, "0.0.0.0", cfg.Admin.Address, "probes come from outside")
		require.True(t, cfg.Metrics.Prometheus)
		require.True(t, cfg.Cluster.ListenOnAllIPs)
		require.Equal(t, map[string]string{"data": cfg.DataDir, "peer-tls": cfg.Cluster.PeerTLSDir}, mounts(&c))
		require.Equal(t, cfg.DataDir, cfg.DataLogDir, "the image's folders but for /data cannot be written to")
	}

	require.Equal(t, "Parallel", set.PodManagementPolicy, "the first server waits for the others")
	require.Equal(t, "data", set.VolumeClaimTemplates[0].Metadata.Name)
	require.Equal(t, "peer-tls", pod.Volumes[0].Name)
	require.Equal(t, "/livez", c.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	require.Equal(t, []string{"admin", "admin"}, []string{c.LivenessProbe.HTTPGet.Port, c.ReadinessProbe.HTTPGet.Port})
	require.True(t, pod.SecurityContext.RunAsNonRoot)
	require.True(t, c.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.False(t, *pod.EnableServiceLinks)
	require.Equal(t, []string{"ALL"}, c.SecurityContext.Capabilities.Drop)

	service := spec[kubeService](t, objects, "Service/zkd", "v1")
	peers := spec[kubeService](t, objects, "Service/"+set.ServiceName, "v1")
	require.True(t, peers.PublishNotReadyAddresses, "servers find each other before they are ready")
	require.Equal(t, "None", peers.ClusterIP)
	for _, p := range slices.Concat(service.Ports, peers.Ports) {
		require.Equal(t, p.Port, ports[p.TargetPort], "%+v", p)
	}
	budget := spec[kubeBudget](t, objects, "PodDisruptionBudget/zkd", "policy/v1")
	require.LessOrEqual(t, budget.MaxUnavailable, (set.Replicas-1)/2, "a majority must be left")
	network := spec[kubeNetwork](t, objects, "NetworkPolicy/zkd", "networking.k8s.io/v1")
	// kustomize adds labels where services and stateful sets select by them, but not here.
	labels := kubeLabels{map[string]string{"app.kubernetes.io/name": "zkd", "app.kubernetes.io/instance": "zkd"}}
	require.Equal(t, labels, budget.Selector)
	require.Equal(t, labels, network.PodSelector, "a policy without labels is one for every pod")
	require.Equal(t, labels, pod.Affinity.PodAntiAffinity.Preferred[0].PodAffinityTerm.LabelSelector)
	for _, rule := range network.Ingress {
		for _, from := range rule.From {
			require.Equal(t, labels, from.PodSelector)
		}
		for _, p := range rule.Ports {
			require.Contains(t, ports, p.Port)
			require.Equal(t, p.Port == "peer", len(rule.From) > 0, "%v", p.Port)
		}
	}
	require.Len(t, objects, 5)
}

// podVariables are the variables of a pod in the namespace prod.
func podVariables(t *testing.T, c *kubeContainer) map[string]string {
	t.Helper()
	vars := map[string]string{}
	for _, v := range c.Env {
		if v.ValueFrom.FieldRef.FieldPath != "" {
			require.Equal(t, "metadata.namespace", v.ValueFrom.FieldRef.FieldPath)
			v.Value = "prod"
		}
		for known := range maps.Keys(vars) { // only those before it are replaced
			v.Value = strings.ReplaceAll(v.Value, "$("+known+")", vars[known])
		}
		require.NotContains(t, v.Value, "$(")
		vars[v.Name] = v.Value
	}
	return vars
}

func mounts(c *kubeContainer) map[string]string {
	m := map[string]string{}
	for _, v := range c.VolumeMounts {
		m[v.Name] = v.MountPath
	}
	return m
}
