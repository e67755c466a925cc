/// The purpose of a Redis command that waits for its reply.
enum OutstandingCallKind: UInt8, BitwiseCopyable {
    /// One or several calls of the ``RedisSession``. The other kinds are commands that the connection itself sends.
    case sessionCall
    case authenticate, select, setName, serverInformation, evictionPolicy, loadScript, asking, waitForReplicas
}

/// When the session gets the reply to a call.
enum ReplyTiming {
    /// As soon as the reply has arrived and all earlier replies were read.
    case atOnce
    /// After the server has replied to the command WAIT that follows the call. This second reply says how many replicas
    /// have the call's writes. Until it arrives, the reply to the call stays unread.
    case afterWaitCommand
}

/// A script call, or one of the connection's own commands, that has no reply yet.
struct OutstandingCall: BitwiseCopyable {
    /// Identifies the key of a session's call in a cluster (``KeyHashSlot/fingerprint``), so that an ASK can redirect
    /// the next call with the same key. Has no meaning for the connection's own commands.
    var keyFingerprint: UInt64
    /// The loop's monotonic time when the call was issued.
    var issuedAtMicroseconds: Int64
    var kind: OutstandingCallKind
    /// How many calls the command has, if this call is its first. 0 for its other calls, and for a call that is not
    /// written yet.
    var commandCallCount: UInt8
    /// Whether the connection had already loaded the scripts a second time when this call was issued. If the server
    /// lacks the script even so, the connection ends.
    var followsScriptReload: Bool
    /// Whether the reply stays unread until the server has replied to WAIT (``ReplyTiming/afterWaitCommand``).
    var awaitsReplicas: Bool
}
