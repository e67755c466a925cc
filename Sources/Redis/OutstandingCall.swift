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
    /// In a cluster, the ``KeyHashSlot/fingerprint`` of the call's key; otherwise 0. It means nothing for the
    /// connection's own commands.
    var keyFingerprint: UInt64
    /// The loop's monotonic time when the call was issued.
    var issuedAtMicroseconds: Int64
    var kind: OutstandingCallKind
    /// How many calls share one command and its reply. The first call of the command has this number, the others have
    /// 0. A call that is not written yet also has 0. A byte suffices, because a command has at most
    /// ``RedisConnection/callsPerCommandMax`` calls.
    var commandCallCount: UInt8
    /// Whether the connection had already sent the scripts a second time when this call was issued. If the server
    /// replies even to such a call that it lacks the script, the connection ends.
    var followsScriptReload: Bool
    /// Whether the reply stays unread until the server has replied to WAIT (``ReplyTiming/afterWaitCommand``).
    var awaitsReplicas: Bool
}
