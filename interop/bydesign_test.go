package interop

import "strings"

// byDesign is the table of differences, with the reason for each.
var byDesign = []difference{
	{
		"fourletter", "envi", "os.memory.total", 0,
		[]string{"os.memory.total", "zkd.version"},
		"zkd adds its own version behind the keys of ZooKeeper",
	},
	{
		"fourletter", "cons-after-a-handshake",
		"  | /<ip>:N[N](queued=N,recved=N,sent=N,sid=0xH,lop=null,est=N,to=N,lcxid=0xH,lzxid=0xH,lresp=N,llat=N,minlat=N,avglat=N,maxlat=N)|", 0,
		[]string{"  | /<ip>:N[N](queued=N,recved=N,sent=N,sid=0xH,lop=NA,est=N,to=N,lcxid=0xH,lzxid=0xH,lresp=N,llat=N,minlat=N,avglat=N,maxlat=N)|"},
		"a resumed connection has no operation yet: NA, as before the first one everywhere else",
	},
	{
		"golden", "bytes", "  ffffffffffffffffffffffff000000000000000300000003000000022f61", 0,
		[]string{"  ffffffff0000000000000007000000000000000300000003000000022f61"},
		"since 3.9 a notification carries the zxid of the change that fired it",
	},
	{
		"golden", "bytes", "  ffffffffffffffffffffffff000000000000000100000003000000042f622f77", 0,
		[]string{"  ffffffff000000000000000c000000000000000100000003000000042f622f77", "  ffffffff000000000000000c000000000000000400000003000000022f62"},
		"as above; and since 3.9 a recursive watch does not take the place of a child watch on the same path",
	},
	{
		"watches", "persistent-beside-one-shot", `watcher:   event created "~/n/c" zxid=-1`, 0,
		[]string{`watcher:   event created "~/n/c" zxid=txn`, `watcher:   event children "~/n" zxid=txn`},
		"since 3.9 a recursive watch does not take the place of a persistent one on the same path",
	},
	{
		"frames", "empty-records", `  closed without a reply`, 0,
		[]string{`  zxid=0 err=-115`},
		"an auth packet that cannot be decoded fails like one with a null scheme: -115, so that the client knows why; a sasl packet fails like any other record",
	},
	{
		"frames", "empty-records", `  closed without a reply`, 1,
		[]string{`  zxid=0 err=-115`},
		"an auth packet that cannot be decoded fails like one with a null scheme: -115, so that the client knows why; a sasl packet fails like any other record",
	},
	{
		"frames", "empty-records", `  closed without a reply`, 2,
		[]string{`  zxid=0 err=-115`},
		"an auth packet that cannot be decoded fails like one with a null scheme: -115, so that the client knows why; a sasl packet fails like any other record",
	},
	{
		"frames", "empty-records", `  closed without a reply`, 3,
		[]string{`  zxid=0 err=-115`},
		"an auth packet that cannot be decoded fails like one with a null scheme: -115, so that the client knows why; a sasl packet fails like any other record",
	},
	{
		"frames", "empty-records", `  closed without a reply`, 4,
		[]string{`  zxid=+0 err=-5`},
		"an auth packet that cannot be decoded fails like one with a null scheme: -115, so that the client knows why; a sasl packet fails like any other record",
	},
	{
		"frames", "negative-vector-counts", `  zxid=+0 err=-5`, 0,
		[]string{`  zxid=+0 err=0`},
		"a null list of paths is an empty one; ZooKeeper trips over it",
	},
	{
		"frames", "null-paths", `  zxid=+0 err=-5 and 9 bytes behind the error`, 0,
		[]string{`  zxid=+1 err=0 [error -8/-8] end=-1,-1`},
		"a null path breaks the rules of paths, and the other operations of a multi are answered too; ZooKeeper trips over it, and appends half of an answer",
	},
	{
		"paths", "watch", `removeWatches checkWatches "a": -121 -5`, 0,
		[]string{`removeWatches checkWatches "a": -121 -121`},
		"a path without a slash is not watched by anybody; ZooKeeper trips over it on its way to the root",
	},
	{
		"paths", "watch", `  zxid=+0 err=0 path="~/\xed\xa0\x80\xed\xb0\x80"`, 0,
		[]string{`  zxid=+0 err=0 path="~/𐀀"`},
		"a character beyond U+FFFF is echoed as it came; ZooKeeper writes its two halves one by one, which is no UTF-8",
	},
	{
		"paths", "watch", `  zxid=+0 err=0 path="~/�"`, 0,
		[]string{`  zxid=+0 err=0 path="~/\xff"`},
		"a malformed string is echoed as it came; no node can have such a name",
	},
	{
		"paths", "watch", `  zxid=+0 err=0 path="~/a�"`, 0,
		[]string{`  zxid=+0 err=0 path="~/a\xc3"`},
		"a malformed string is echoed as it came; no node can have such a name",
	},
	{
		"paths", "watch", `  event at once deleted "~/\xed\xa0\x80\xed\xb0\x80" zxid=-1`, 0,
		[]string{`  event at once deleted "~/𐀀" zxid=-1`},
		"a character beyond U+FFFF is echoed as it came; ZooKeeper writes its two halves one by one, which is no UTF-8",
	},
	{
		"paths", "watch", `  event at once deleted "~/\xed\xa0\x80\xed\xb0\x80" zxid=-1`, 1,
		[]string{`  event at once deleted "~/𐀀" zxid=-1`},
		"a character beyond U+FFFF is echoed as it came; ZooKeeper writes its two halves one by one, which is no UTF-8",
	},
	{
		"multi", "each-kind-of-operation", `  zxid=+1 err=0 [type=1 err=0 path="~/p", type=1 err=0 path="~/p2", type=1 err=0 path="~/s0000000002", type=1 err=0 path="~/s0000000003", type=15 err=0 path="~/c" stat{cz-0 mz-0 pz-0 times=ok v0 cv0 av0 owner=0 len=0 kids=0}, type=15 err=0 path="~/t" stat{cz-0 mz-0 pz-0 times=ok v0 cv0 av0 owner=0 len=0 kids=0}, type=5 err=0 stat{cz-0 mz-0 pz-0 times=ok v1 cv0 av0 owner=0 len=2 kids=0}, type=13 err=0, type=2 err=0] end=-1,-1`, 0,
		[]string{`  zxid=+1 err=0 [type=1 err=0 path="~/p", type=15 err=0 path="~/p2" stat{cz-0 mz-0 pz-0 times=ok v0 cv0 av0 owner=0 len=0 kids=0}, type=1 err=0 path="~/s0000000002", type=15 err=0 path="~/s0000000003" stat{cz-0 mz-0 pz-0 times=ok v0 cv0 av0 owner=S1 len=0 kids=0}, type=15 err=0 path="~/c" stat{cz-0 mz-0 pz-0 times=ok v0 cv0 av0 owner=0 len=0 kids=0}, type=15 err=0 path="~/t" stat{cz-0 mz-0 pz-0 times=ok v0 cv0 av0 owner=0 len=0 kids=0}, type=5 err=0 stat{cz-0 mz-0 pz-0 times=ok v1 cv0 av0 owner=0 len=2 kids=0}, type=13 err=0, type=2 err=0] end=-1,-1`},
		"since 3.7.2, 3.8.2 and 3.9 a create2 inside a multi is answered as one, with the stat",
	},
	{
		"multi", "unknown-flags", `  zxid=+1 err=0 [error 0/0, error -8/-8] end=-1,-1`, 0,
		[]string{`  zxid=+0 err=-5`},
		"since create2 is known inside a multi, flags that nobody knows are a malformed request",
	},
	{
		"multi", "unknown-flags", `  zxid=+1 err=0 [error -8/-8] end=-1,-1`, 0,
		[]string{`  zxid=+0 err=-5`},
		"since create2 is known inside a multi, flags that nobody knows are a malformed request",
	},
	{
		"multi", "unknown-flags", `  zxid=+1 err=0 [error -8/-8] end=-1,-1`, 1,
		[]string{`  zxid=+0 err=-5`},
		"since create2 is known inside a multi, flags that nobody knows are a malformed request",
	},
	{
		"multi", "unknown-flags", `  zxid=+1 err=0 [error -8/-8] end=-1,-1`, 2,
		[]string{`  zxid=+0 err=-5`},
		"since create2 is known inside a multi, flags that nobody knows are a malformed request",
	},
	{
		"tree", "set-data", `  zxid=+0 err=0 stat{cz-1 mz-0 pz-1 times=ok v1 cv0 av0 owner=0 len=5 kids=0}`, 0,
		[]string{`  zxid=+0 err=-102`},
		"since 3.8.4 and 3.9.2 exists needs READ",
	},
	{
		"tree", "reads-of-missing-and-forbidden", `  zxid=+0 err=0 stat{cz-1 mz-1 pz-0 times=ok v0 cv1 av0 owner=0 len=0 kids=1}`, 0,
		[]string{`  zxid=+0 err=-102`},
		"since 3.8.4 and 3.9.2 exists needs READ",
	},
	{
		"reserved", "quota-counts", `  zxid=+1 err=0 [error 0/0, error -125/-125] end=-1,-1`, 0,
		[]string{`  zxid=+1 err=0 [type=2 err=0, type=1 err=0 path="~/e"] end=-1,-1`},
		"zkd checks a quota against the tree as the operations before in the same multi have left it; ZooKeeper against the tree before the multi",
	},
	{
		"reserved", "quota-counts", `  zxid=+1 err=0 [error -101/-101, error -2/-2] end=-1,-1`, 0,
		[]string{`  zxid=+1 err=0 [error 0/0, error -125/-125] end=-1,-1`},
		"zkd checks a quota against the tree as the operations before in the same multi have left it; ZooKeeper against the tree before the multi",
	},
	{
		"watches", "types-of-persistent-watches", `check p, r; remove p, r: 0 0 0 0`, 0,
		[]string{`check p, r; remove p, r: -121 -121 -121 -121`},
		"since 3.9 the types 1 and 2 mean one-shot watches only, and 4 and 5 the persistent kinds",
	},
	{
		"watches", "types-of-persistent-watches", `check p, r; remove p, r: 0 0 0 0`, 1,
		[]string{`check p, r; remove p, r: -121 -121 -121 -121`},
		"since 3.9 the types 1 and 2 mean one-shot watches only, and 4 and 5 the persistent kinds",
	},
	{
		"watches", "types-of-persistent-watches", `check p, r; remove p, r: -5 -5 -5 -5`, 0,
		[]string{`check p, r; remove p, r: 0 -121 0 -121`},
		"since 3.9 the types 1 and 2 mean one-shot watches only, and 4 and 5 the persistent kinds",
	},
	{
		"watches", "types-of-persistent-watches", `clear: 0 0`, 2,
		[]string{`clear: -121 0`},
		"since 3.9 the types 1 and 2 mean one-shot watches only, and 4 and 5 the persistent kinds",
	},
	{
		"watches", "types-of-persistent-watches", `check p, r; remove p, r: -5 -5 -5 -5`, 1,
		[]string{`check p, r; remove p, r: -121 0 -121 0`},
		"since 3.9 the types 1 and 2 mean one-shot watches only, and 4 and 5 the persistent kinds",
	},
	{
		"watches", "types-of-persistent-watches", `clear: 0 0`, 3,
		[]string{`clear: 0 -121`},
		"since 3.9 the types 1 and 2 mean one-shot watches only, and 4 and 5 the persistent kinds",
	},
}

// reconfigByDesign are the differences in the answers to reconfig.
var reconfigByDesign = func() []difference {
	const config = `  stat{cz0 mz=version pz0 times=0,ok v-1 cv0 av-1 owner=0 len=138 kids=0}`
	list := []difference{
		{
			"ensemble-reconfig", "joining", `  zxid=+1 err=0`, 0,
			[]string{`  zxid=+1 err=-8`},
			"255 as the number of a server is taken by TTL nodes (extendedTypesEnabled); ZooKeeper lets it in, and such a server could not start",
		},
		{
			"ensemble-reconfig", "joining", `  zxid=+1 err=0`, 2,
			[]string{`  zxid=+1 err=-8`},
			"two members cannot have the same addresses; ZooKeeper compares no loopback addresses",
		},
	}
	for n, name := range []string{"joining", "leaving", "leaving"} {
		list = append(list, difference{
			"ensemble-reconfig", name, `  zxid=+1 err=-5`, max(n-1, 0),
			[]string{`  zxid=+1 err=-8`},
			"a number that is none is a bad argument, like all that is wrong in a reconfig; ZooKeeper trips over it",
		})
	}
	for _, role := range []string{"leader", "follower"} {
		list = append(list, difference{
			"ensemble-" + role, "configuration", config, 0,
			[]string{strings.Replace(config, "138", "146", 1)},
			"the first leader gives the configuration its version, whether or not reconfig is enabled; ZooKeeper leaves version=0 where it is not",
		})
	}
	return list
}()

// byDesignOnCluster is the table of what a member of an ensemble answers otherwise than the
// server alone of the recording; TestEnsemble compares these answers with an ensemble's.
var byDesignOnCluster = []difference{
	{
		"auth", "super", `  zxid=+0 err=0 acl=[{1 world anyone}] stat{cz0 mz0 pz0 times=0 v0 cv0 av-1 owner=0 len=0 kids=0}`, 0,
		[]string{`  zxid=+0 err=0 acl=[{1 world anyone}] stat{cz0 mz? pz0 times=0,ok v-1 cv0 av-1 owner=0 len=146 kids=0}`},
		"/zookeeper/config names the members",
	},
	{
		"reserved", "fresh-server", `  zxid=+0 err=0 data="" stat{cz0 mz0 pz0 times=0 v0 cv0 av-1 owner=0 len=0 kids=0}`, 0,
		[]string{`  zxid=+0 err=0 data=<146 bytes> stat{cz0 mz? pz0 times=0,ok v-1 cv0 av-1 owner=0 len=146 kids=0}`},
		"/zookeeper/config names the members",
	},
	{
		"reserved", "fresh-server", `  zxid=+0 err=0 acl=[{1 world anyone}] stat{cz0 mz0 pz0 times=0 v0 cv0 av-1 owner=0 len=0 kids=0}`, 0,
		[]string{`  zxid=+0 err=0 acl=[{1 world anyone}] stat{cz0 mz? pz0 times=0,ok v-1 cv0 av-1 owner=0 len=146 kids=0}`},
		"/zookeeper/config names the members",
	},
}

// notOnCluster lists the conversations that a member of an ensemble answers by its role,
// with the reason why they are left out there.
var notOnCluster = map[string]string{
	"fourletter/srvr":       byRole,
	"fourletter/stat":       byRole,
	"fourletter/conf":       byRole,
	"fourletter/dump":       byRole,
	"fourletter/mntr-state": byRole,
}

const byRole = "the answer depends on the role, which changes here: TestEnsemble compares that of a leader and of a follower"

// mntrLeftOut lists metrics of ZooKeeper's mntr that zkd does not have, with the reason.
// Nearly all of them describe a stage of ZooKeeper's own pipeline.
var mntrLeftOut = func() map[string]string {
	out := map[string]string{}
	for _, group := range []struct{ why, metrics string }{
		{
			"ZooKeeper answers reads in a processor of its own behind the commits; zkd has none",
			`commit_commit_proc_req_queued commit_process_time concurrent_request_processing_in_commit_processor local_write_committed_time_ms
			pending_session_queue_size reads_after_write_in_session_queue requests_in_session_queue read_commit_proc_issued read_commit_proc_req_queued read_commitproc_time_ms read_final_proc_time_ms
			reads_issued_from_session_queue request_commit_queued requests_not_forwarded_to_commit_processor server_write_committed_time_ms
			session_queues_drained time_waiting_empty_pool_in_commit_processor_read_ms write_commit_proc_issued write_commit_proc_req_queued
			write_commitproc_time_ms write_final_proc_time_ms`,
		},
		{
			"ZooKeeper checks writes in a processor of its own before they are logged; zkd applies them once, behind the log",
			`close_session_prep_time outstanding_changes_queued outstanding_changes_removed prep_process_time prep_processor_queue_size
			prep_processor_queue_time_ms prep_processor_request_queued proposal_process_time`,
		},
		{
			"ZooKeeper syncs in a processor of its own; zkd in its log store, see fsynctime",
			`sync_process_time sync_processor_queue_and_flush_time_ms sync_processor_queue_flush_time_ms sync_processor_queue_size
			sync_processor_queue_time_ms sync_processor_request_queued`,
		},
		{
			"zkd has no WatchManagerOptimized, which alone leaves dead watchers behind",
			`add_dead_watcher_stall_time dead_watchers_cleaner_latency dead_watchers_cleared dead_watchers_queued`,
		},
		{
			"a part of the Zab protocol; zkd replicates by raft",
			`commit_propagation_latency diff_count inflight_diff_count inflight_snap_count learner_commit_received_count learner_proposal_received_count
			learner_request_processor_queue_size om_commit_process_time_ms
			N_learner_handler_qp_size N_learner_handler_qp_time_ms
			om_proposal_process_time_ms proposal_ack_creation_latency proposal_latency quorum_ack_latency quit_leading_due_to_disloyal_voter
			skip_learner_request_to_next_processor_count socket_closing_time`,
		},
		{
			"zkd has no throttle of requests: a connection that asks too much is not read",
			`request_throttle_queue_time_ms request_throttle_wait_count stale_requests stale_requests_dropped throttled_ops`,
		},
		{
			"sessions are renewed through the log, which every server applies; see connection_revalidate_count",
			`revalidate_count`,
		},
		{
			"the number of TLS handshakes under way has no limit of its own; see outstanding_tls_handshake",
			`tls_handshake_exceeded`,
		},
		{
			"after the first such error the process ends, with code 3",
			`unrecoverable_error_count`,
		},
		{
			"there is no Java virtual machine",
			`jvm_pause_time_ms netty_queued_buffer_capacity`,
		},
		{
			"zkd keeps no serialised replies",
			`response_packet_cache_hits response_packet_cache_misses response_packet_get_children_cache_hits
			response_packet_get_children_cache_misses`,
		},
		{
			"zkd does not add up bytes by the first name of a path, which would be one look-up more for every request",
			`zookeeper_write_per_namespace`,
		},
		{
			"a reply has one way to its connection and cannot be late for it",
			`stale_replies`,
		},
	} {
		for _, m := range strings.Fields(group.metrics) {
			out[m] = group.why
		}
	}
	return out
}()
