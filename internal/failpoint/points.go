package failpoint

// A Point is a place in the server.
type Point string

// The points that are called by name.
const (
	ApplyBefore   Point = "apply.before" // a batch of the log, under the write lock
	ApplyAfter    Point = "apply.after"
	ReplyBefore   Point = "reply.before"   // the answer to a write
	InstallBefore Point = "install.before" // of another server's snapshot
	InstallAfter  Point = "install.after"
	WatchSend     Point = "watch.send"
	SessionCreate Point = "session.create" // before it is proposed; an error ends the connection
	SessionExpire Point = "session.expire" // before it is proposed; an error leaves it to the next look
	SessionClose  Point = "session.close"  // when it is applied
	Forward       Point = "forward"        // commands to the leader; an error ends the stream
)
