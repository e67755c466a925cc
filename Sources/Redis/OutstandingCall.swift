/// The kind of a command that waits for its reply.
enum CommandKind: UInt8, BitwiseCopyable {
    /// A script call of the session.
    case call
    case authenticate, select, setName, serverInformation, evictionPolicy, loadScript, asking, waitForReplicas
}

/// A script call, or one of the connection's own commands, that has no reply yet.
struct OutstandingCall: BitwiseCopyable {
    /// ``KeyPlace/fingerprint`` in a cluster, else 0.
    var keyFingerprint: UInt64
    /// The monotonic time of the turn in which the call was written.
    var issuedAtMicroseconds: Int64
    var kind: CommandKind
    /// In the first call of a command: the number of the command's calls, which share its reply. 0 in the
    /// command's other calls, and in calls that are not written yet.
    var batchCount: UInt8
    /// Whether the call was written after the scripts were loaded a second time on this connection.
    var followsReload: Bool
    /// Whether the reply is withheld until the WAIT after the call is answered.
    var awaitsReplicas: Bool
}
