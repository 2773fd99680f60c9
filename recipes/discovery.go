package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client"
)

// A ServiceInstance is one process that offers a service, in the form of Curator's service
// discovery (curator-x-discovery) with its JSON serializer.
type ServiceInstance struct {
	Name                string          `json:"name"`
	ID                  string          `json:"id"`
	Address             string          `json:"address"`
	Port                *int            `json:"port"`
	SSLPort             *int            `json:"sslPort"`
	Payload             json.RawMessage `json:"payload"`
	RegistrationTimeUTC int64           `json:"registrationTimeUTC"` // milliseconds since 1970
	ServiceType         string          `json:"serviceType"`         // DYNAMIC: it goes with its process
	URISpec             json.RawMessage `json:"uriSpec"`
	Enabled             *bool           `json:"enabled,omitempty"` // of newer versions; nil is enabled
}

// A Discovery is a registry of services: <base>/<service>/<instance id>.
type Discovery struct {
	c    *client.Client
	base string
}

// NewDiscovery returns the registry below base.
func NewDiscovery(c *client.Client, base string) *Discovery { return &Discovery{c: c, base: base} }

// Register offers an instance until the returned node is closed: its node is made again whenever
// it is lost. Without an ID it gets one. It returns when the instance can be found.
func (d *Discovery) Register(ctx context.Context, in ServiceInstance) (*PersistentNode, error) {
	if in.Name == "" {
		return nil, errors.New("register: the service has no name")
	}
	if in.ID == "" {
		in.ID = client.NewUUID()
	}
	if in.RegistrationTimeUTC == 0 {
		in.RegistrationTimeUTC = time.Now().UnixMilli()
	}
	if in.ServiceType == "" {
		in.ServiceType = "DYNAMIC"
	}
	data, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", in.Name, err)
	}
	mode := client.ModeEphemeral
	if in.ServiceType != "DYNAMIC" {
		mode = client.ModePersistent
	}
	n := NewPersistentNode(d.c, join(join(d.base, in.Name), in.ID), mode, data, TakeOver())
	if err := n.Await(ctx); err != nil {
		_ = n.Close(ctx) // it goes on in the background
		return nil, fmt.Errorf("register %s: %w", in.Name, err)
	}
	return n, nil
}

// Services lists the names of the services that have instances, or had some a short while ago.
func (d *Discovery) Services(ctx context.Context) ([]string, error) {
	names, _, err := d.c.Children(ctx, d.base, client.Fresh())
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	slices.Sort(names)
	return names, err
}

// Instances reads the instances of a service, by their ids' order.
func (d *Discovery) Instances(ctx context.Context, service string) ([]ServiceInstance, error) {
	dir := join(d.base, service)
	names, _, err := d.c.Children(ctx, dir, client.Fresh())
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var out []ServiceInstance
	for _, name := range names {
		data, _, err := d.c.Get(ctx, join(dir, name))
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		in, err := JSON[ServiceInstance]().Decode(data)
		if err != nil {
			return nil, fmt.Errorf("instance %s of %s: %w", name, service, err)
		}
		out = append(out, in)
	}
	return out, nil
}

// A ServiceCache follows the instances of a service: what asks for one all the time asks here.
type ServiceCache struct {
	*Cache[ServiceInstance]
}

// Follow begins to follow a service. Close it.
func (d *Discovery) Follow(service string) *ServiceCache {
	return &ServiceCache{NewChildrenCache(d.c, join(d.base, service), JSON[ServiceInstance]())}
}

// Instances yields the instances that are there and enabled, by their ids' order.
func (s *ServiceCache) Instances() iter.Seq[ServiceInstance] {
	return func(yield func(ServiceInstance) bool) {
		for _, e := range s.All() {
			if e.Err == nil && (e.Value.Enabled == nil || *e.Value.Enabled) && !yield(e.Value) {
				return
			}
		}
	}
}
