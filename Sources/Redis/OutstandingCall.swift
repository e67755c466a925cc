/// The purpose of a Redis command that waits for its reply.
enum OutstandingCallKind: UInt8, BitwiseCopyable {
    /// The command has one or several calls of the ``RedisSession``. All other kinds are commands of the connection
    /// itself.
    case call
    case authenticate, select, setName, serverInformation, evictionPolicy, loadScript, asking, waitForReplicas
}

/// When the session gets the reply to a call.
enum ReplyHandling {
    /// When it has arrived and all earlier replies were read.
    case atOnce
    /// When the server has replied to the WAIT that follows the call. Until then the reply stays unread.
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
    /// In the first call of a written command: how many calls share the command and its reply. 0 in the command's other
    /// calls, and in calls that are not written yet. A byte suffices, because a command has at most
    /// ``RedisConnection/callsPerCommandMax`` calls.
    var commandCallCount: UInt8
    /// Whether the call was issued after the connection had sent the scripts a second time. If the server lacks the
    /// script even then, the connection ends.
    var followsScriptReload: Bool
    /// Whether the reply stays unread until the server has replied to the WAIT that follows the call.
    var awaitsReplicas: Bool
}
