/// What a reply on a connection belongs to.
enum CallKind: UInt8 {
    case update, end, start, hold, register, unregister, address, settle
    case authenticate, select, setName, serverInformation, evictionPolicy, loadAdmit, loadSettle, asking

    /// An update or an end, which may be told to be sent with the activity's value.
    var isCommand: Bool { self == .update || self == .end }
}

/// What an update or an end asked for, for a reply that says no more than that it is given.
struct AskedPush {
    var timestampSeconds: UInt64 = 0
    var isHigh = false
    /// The bucket of priority 10, and the one while frequent updates are allowed.
    var budget = BucketSize()
    var frequentBudget = BucketSize()
}

struct OutstandingCall {
    var tag: UInt64
    /// ``KeyPlace/fingerprint`` in a cluster, else 0.
    var keyFingerprint: UInt64
    /// Monotonic, of the turn in which it was written.
    var issuedAtMicroseconds: Int64
    var kind: CallKind
    /// How many calls, this one the first of them, left as one command and are answered by one reply; 0 for the others of them, and for
    /// all that have not left yet.
    var batchCount: UInt8
    /// Of an update or an end.
    var asked: AskedPush
    /// Written after the scripts were loaded a second time on this connection.
    var followsReload: Bool
}

/// The calls of one connection that have no reply yet, oldest first: replies come in the order of the calls.
struct OutstandingCalls: ~Copyable {
    private let calls: UnsafeMutableBufferPointer<OutstandingCall>
    private var head = 0
    private(set) var count = 0

    init(capacity: Int) {
        precondition(capacity > 0)
        calls = .allocate(capacity: capacity)
    }

    deinit {
        calls.deallocate()
    }

    var capacity: Int { calls.count }

    var oldest: OutstandingCall? { count == 0 ? nil : calls[head] }

    /// - Parameter index: from the oldest on.
    subscript(index: Int) -> OutstandingCall {
        precondition(index >= 0 && index < count)
        let place = head + index
        return calls[place >= calls.count ? place - calls.count : place]
    }

    mutating func append(_ call: OutstandingCall) {
        precondition(count < calls.count, "more calls are outstanding than the limit allows")
        var tail = head + count
        if tail >= calls.count { tail -= calls.count }
        calls.initializeElement(at: tail, to: call)
        count += 1
    }

    /// Notes that the newest `count` calls have left as one command.
    mutating func markNewestAsBatch(count batchCount: Int) {
        precondition(batchCount > 0 && batchCount <= count)
        var first = head + count - batchCount
        if first >= calls.count { first -= calls.count }
        calls[first].batchCount = UInt8(batchCount)
    }

    mutating func removeOldest() -> OutstandingCall? {
        guard count > 0 else { return nil }
        let call = calls[head]
        head = head + 1 == calls.count ? 0 : head + 1
        count -= 1
        return call
    }
}
