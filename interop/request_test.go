package interop

import (
	"fmt"
	"strings"
)

// request is one request of a talk: how the transcript shows it, and its bytes.
type request struct {
	label string
	op    int32
	body  body
}

func (k *talk) create(path string, data []byte, flags int32) request {
	return request{fmt.Sprintf("create %s %s flags=%d", quoted(path), dataText(data), flags), opCreate, createBody(k.path(path), data, flags)}
}

func (k *talk) create2(path string, data []byte, flags int32) request {
	return request{fmt.Sprintf("create2 %s %s flags=%d", quoted(path), dataText(data), flags), opCreate2, createBody(k.path(path), data, flags)}
}

func (k *talk) container(path string, flags int32) request {
	return request{fmt.Sprintf("createContainer %s flags=%d", quoted(path), flags), opContainer, createBody(k.path(path), nil, flags)}
}

func (k *talk) createTTL(path string, flags int32, ttl int64) request {
	return request{fmt.Sprintf("createTTL %s flags=%d ttl=%d", quoted(path), flags, ttl), opCreateTTL, createBody(k.path(path), nil, flags).i64(ttl)}
}

func (k *talk) createACL(path string, flags int32, list ...ace) request {
	return request{fmt.Sprintf("create %s acl=%v flags=%d", quoted(path), list, flags), opCreate, body{}.str(k.path(path)).buf([]byte{}).acl(list).i32(flags)}
}

func (k *talk) del(path string, version int32) request {
	return request{fmt.Sprintf("delete %s version=%d", quoted(path), version), opDelete, body{}.str(k.path(path)).i32(version)}
}

func (k *talk) exists(path string, watch bool) request {
	return request{fmt.Sprintf("exists %s%s", quoted(path), watchText(watch)), opExists, readBody(k.path(path), watch)}
}

func (k *talk) get(path string, watch bool) request {
	return request{fmt.Sprintf("getData %s%s", quoted(path), watchText(watch)), opGetData, readBody(k.path(path), watch)}
}

func (k *talk) set(path string, data []byte, version int32) request {
	return request{fmt.Sprintf("setData %s %s version=%d", quoted(path), dataText(data), version), opSetData, setBody(k.path(path), data, version)}
}

func (k *talk) getACL(path string) request {
	return request{fmt.Sprintf("getACL %s", quoted(path)), opGetACL, body{}.str(k.path(path))}
}

func (k *talk) setACL(path string, version int32, list ...ace) request {
	return request{fmt.Sprintf("setACL %s %v version=%d", quoted(path), list, version), opSetACL, body{}.str(k.path(path)).acl(list).i32(version)}
}

func (k *talk) children(path string, watch bool) request {
	return request{fmt.Sprintf("getChildren %s%s", quoted(path), watchText(watch)), opGetChildren, readBody(k.path(path), watch)}
}

func (k *talk) children2(path string, watch bool) request {
	return request{fmt.Sprintf("getChildren2 %s%s", quoted(path), watchText(watch)), opGetChildren2, readBody(k.path(path), watch)}
}

func (k *talk) sync(path string) request {
	return request{fmt.Sprintf("sync %s", quoted(path)), opSync, body{}.str(k.path(path))}
}

func (k *talk) ephemerals(prefix string) request {
	return request{fmt.Sprintf("getEphemerals %s", quoted(prefix)), opEphemerals, body{}.str(k.path(prefix))}
}

func (k *talk) allChildren(path string) request {
	return request{fmt.Sprintf("getAllChildrenNumber %s", quoted(path)), opAllChildrenNum, body{}.str(k.path(path))}
}

func (k *talk) addWatch(path string, mode int32) request {
	return request{fmt.Sprintf("addWatch %s mode=%d", quoted(path), mode), opAddWatch, body{}.str(k.path(path)).i32(mode)}
}

func (k *talk) removeWatches(path string, kind int32) request {
	return request{fmt.Sprintf("removeWatches %s type=%d", quoted(path), kind), opRemoveWatches, body{}.str(k.path(path)).i32(kind)}
}

func (k *talk) checkWatches(path string, kind int32) request {
	return request{fmt.Sprintf("checkWatches %s type=%d", quoted(path), kind), opCheckWatches, body{}.str(k.path(path)).i32(kind)}
}

// setWatches asks for watches as a client does that saw everything up to age zxids ago.
func (k *talk) setWatches(age int64, data, exist, child []string) request {
	b := body{}.i64(k.zxid - age).strs(k.paths(data)...).strs(k.paths(exist)...).strs(k.paths(child)...)
	return request{fmt.Sprintf("setWatches age=%d data=%q exist=%q child=%q", age, sorted(data), sorted(exist), sorted(child)), opSetWatches, b}
}

func (k *talk) setWatches2(age int64, data, exist, child, persistent, recursive []string) request {
	r := k.setWatches(age, data, exist, child)
	r.label = strings.Replace(r.label, "setWatches", "setWatches2", 1) + fmt.Sprintf(" persistent=%q recursive=%q", persistent, recursive)
	r.op = opSetWatches2
	r.body = r.body.strs(k.paths(persistent)...).strs(k.paths(recursive)...)
	return r
}

func (k *talk) paths(list []string) []string {
	var out []string
	for _, p := range list {
		out = append(out, k.path(p))
	}
	return out
}

func (k *talk) auth(scheme, data string) request {
	return request{fmt.Sprintf("auth %s %q", scheme, data), opAuth, body{}.i32(0).str(scheme).buf([]byte(data))}
}

func (k *talk) whoAmI() request { return request{"whoAmI", opWhoAmI, nil} }

// bytes is a request whose body is written out by the case.
func (k *talk) bytes(label string, op int32, b body) request { return request{label, op, b} }

// multi packs write requests and checks into one.
func (k *talk) multi(list ...request) request { return packed("multi", opMulti, list) }

// multiRead packs reads into one.
func (k *talk) multiRead(list ...request) request { return packed("multiRead", opMultiRead, list) }

func packed(name string, op int32, list []request) request {
	var labels []string
	var b body
	for _, r := range list {
		labels = append(labels, r.label)
		b = append(b.i32(r.op).boolean(false).i32(-1), r.body...)
	}
	return request{fmt.Sprintf("%s [%s]", name, strings.Join(labels, "; ")), op, b.i32(-1).boolean(true).i32(-1)}
}

// check is only for a multi.
func (k *talk) check(path string, version int32) request {
	return request{fmt.Sprintf("check %s version=%d", quoted(path), version), opCheck, body{}.str(k.path(path)).i32(version)}
}

func watchText(watch bool) string {
	if watch {
		return " watch"
	}
	return ""
}
