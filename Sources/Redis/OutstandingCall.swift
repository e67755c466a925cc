/// What a reply on a connection belongs to.
enum CommandKind: UInt8, BitwiseCopyable {
    /// A call of a script, which the session made.
    case call
    case authenticate, select, setName, serverInformation, evictionPolicy, loadScript, asking, waitForReplicas
}

/// A call or a command of the connection's own that has no reply yet.
struct OutstandingCall: BitwiseCopyable {
    /// ``KeyPlace/fingerprint`` in a cluster, else 0.
    var keyFingerprint: UInt64
    /// Monotonic, of the turn in which it was written.
    var issuedAtMicroseconds: Int64
    var kind: CommandKind
    /// How many calls, this one the first of them, left as one command and are answered by one reply; 0 for the others of them, and for
    /// all that have not left yet.
    var batchCount: UInt8
    /// Written after the scripts were loaded a second time on this connection.
    var followsReload: Bool
    /// Its reply is withheld until WAIT, which is written behind it, is answered.
    var awaitsReplicas: Bool
}
