/// The purpose of a Redis command that waits for its reply.
enum OutstandingCallKind: UInt8, BitwiseCopyable {
    /// One or several calls of the ``RedisSession``. All other kinds are commands of the connection itself.
    case sessionCall
    case authenticate, select, setName, serverInformation, evictionPolicy, loadScript, asking, waitForReplicas
}

/// When the session gets the reply to a call.
enum ReplyHandling {
    /// As soon as it has arrived and all earlier replies were read.
    case atOnce
    /// After the server has replied to the command WAIT that follows the call. The reply to WAIT says how many replicas
    /// have the call's writes. Until then, the reply to the call stays unread.
    case afterWait
}

/// A script call, or one of the connection's own commands, that has no reply yet.
struct OutstandingCall: BitwiseCopyable {
    /// In a cluster, the ``KeyHashSlot/fingerprint`` of the call's key; otherwise 0. Has no meaning for the
    /// connection's own commands.
    var keyFingerprint: UInt64
    /// The loop's monotonic time when the call was issued.
    var issuedAtMicroseconds: Int64
    var kind: OutstandingCallKind
    /// How many calls share one command and its reply. Only the first of these calls has the number. It is 0 in the
    /// other calls of the command, and in calls that are not written yet. A byte suffices, because a command has at
    /// most ``RedisConnection/callsPerCommandMax`` calls.
    var commandCallCount: UInt8
    /// Whether the connection had sent the scripts a second time before the call was issued. If the server lacks the
    /// script even then, the connection ends.
    var followsScriptReload: Bool
    /// Whether the reply stays unread until the server has replied to WAIT (``ReplyHandling/afterWait``).
    var awaitsReplicas: Bool
}
