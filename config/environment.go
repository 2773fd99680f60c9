package config

import (
	"fmt"
	"slices"
	"strings"
)

// Environment variables: ZKD_ + the key in upper case, dots as underscores, "zkd." left out.
// Underscores do not count when a variable is matched, so ZKD_TICKTIME, ZKD_TICK_TIME and
// ZKD_4LW_COMMANDS_WHITELIST all work, and the name in the reference (Key.Env) is the one
// with an underscore at every new word.
//
// A variable that matches no key is a warning, not an error: Kubernetes sets ZKD_SERVICE_HOST,
// ZKD_PORT_2181_TCP and more of the kind in every container beside a service named zkd.
const envPrefix = "ZKD_"

// envName is the readable variable name of a key.
func envName(key string) string {
	var b strings.Builder
	b.WriteString(envPrefix)
	lower := false
	for _, r := range strings.TrimPrefix(key, "zkd.") {
		upper := r >= 'A' && r <= 'Z'
		switch {
		case r == '.' || r == '-':
			r = '_'
		case upper && lower:
			b.WriteByte('_')
		}
		lower = r >= 'a' && r <= 'z'
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}

// squeeze makes names comparable: upper case without separators.
func squeeze(name string) string {
	return strings.ToUpper(strings.NewReplacer(".", "", "_", "", "-", "").Replace(strings.TrimPrefix(name, "zkd.")))
}

// environment adds the values of the variables that start with ZKD_.
func (b *builder) environment(env []string) {
	byVariable := map[string]string{}
	for _, k := range table().keys {
		for _, name := range append([]string{k.Name}, k.Aliases...) {
			if k.prefix == "" {
				byVariable[squeeze(name)] = k.Name
			}
		}
	}
	var unknown []string
	env = slices.Clone(env)
	slices.Sort(env)
	for _, pair := range env {
		name, text, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok {
			continue
		}
		key, known := byVariable[squeeze(rest)]
		if !known {
			key, known = familyOf(squeeze(rest))
		}
		switch {
		case serviceLink(rest, text):
			if known {
				b.warn(Origin{}, "", fmt.Sprintf("%s is ignored: it looks like a link to a Kubernetes service, not like a value of %s", name, key))
			}
		case !known:
			unknown = append(unknown, name)
		default:
			b.add(value{written: key, text: javaTrim(text), origin: Origin{Name: environmentOrigin + name}})
		}
	}
	if len(unknown) > 0 {
		b.warn(Origin{}, "", "environment variables that name no key are ignored: "+strings.Join(unknown, ", "))
	}
}

// familyOf finds server.1 for SERVER1. What is behind the prefix comes out in lower case.
func familyOf(squeezed string) (key string, ok bool) {
	for _, k := range table().families {
		rest, found := strings.CutPrefix(squeezed, squeeze(k.prefix))
		if !found || rest == "" {
			continue
		}
		if strings.HasSuffix(k.Name, ".N") && strings.Trim(rest, "0123456789") != "" {
			continue
		}
		return k.prefix + strings.ToLower(rest), true
	}
	return "", false
}

// serviceLink recognises the variables that Kubernetes and Docker make for services.
func serviceLink(rest, text string) bool {
	for _, scheme := range []string{"tcp://", "udp://", "sctp://"} {
		if strings.HasPrefix(text, scheme) {
			return true
		}
	}
	return strings.HasSuffix(rest, "SERVICE_HOST") || strings.Contains(rest, "SERVICE_PORT") ||
		strings.Contains(rest, "PORT_") && (strings.Contains(rest, "_TCP") || strings.Contains(rest, "_UDP"))
}
