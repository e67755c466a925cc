/// What an activity's hash says. Times are UNIX milliseconds by the server's clock. For people: it allocates.
public struct ActivityInspection: Sendable, Equatable {
    /// How far the newest admitted version has come.
    public enum State: Sendable, CaseIterable {
        /// It waits for its pace or for a token, and is with a worker.
        case waiting
        /// It was given to a worker to be sent; the answer is not known here.
        case sending
        /// The same for a start.
        case startSending
        /// It is kept here until a token registers.
        case held
        case settled
        /// Settled, and the activity goes on showing what it showed.
        case notShown
    }

    public struct Newest: Sendable, Equatable {
        public var version: ScriptVersion
        public var isEnd: Bool
        public var state: State
    }

    public struct Sent: Sendable, Equatable {
        /// The last assigned `aps.timestamp`, UNIX seconds.
        public var timestampSeconds: UInt64
        public var atMilliseconds: Int64
    }

    public struct Held: Sendable, Equatable {
        /// Below the newest if that one has taken its alert to carry, and is not settled.
        public var version: ScriptVersion
        public var command: [UInt8]
        public var carriesAlert: Bool
    }

    public private(set) var token: InspectedToken?
    /// When ``token`` was registered; without one, when the last was unregistered or retired; nil: there was none.
    public private(set) var registeredAtMilliseconds: Int64?
    public private(set) var allowsFrequentUpdates = false
    public private(set) var newest: Newest?
    /// The last send verdict.
    public private(set) var sent: Sent?
    /// Of what is shown; nil while that is not known.
    public private(set) var shownDigest: UInt64?
    public private(set) var held: Held?
    /// The end of the eight hours after its birth: then only its end is sent.
    public private(set) var updatesUntilMilliseconds: Int64?
    /// When the bucket of priority 10 will be full.
    private var fullAtMilliseconds: Int64 = 0
    private var doublings: Int64 = 0
    private var limitedAtMilliseconds: Int64?

    /// - Parameter fields: what HGETALL answers, in pairs. Unknown ones are left aside.
    public init(fields: [(field: [UInt8], value: [UInt8])]) throws(InspectionError) {
        let hash = InspectedHash(fields)
        (registeredAtMilliseconds, token) = try hash.token(suffix: "")
        let alertIsHeld = try takeNewest(hash)
        try takePace(hash)
        if var record = hash.reader("h") {
            held = Held(version: try record.version(), command: record.rest, carriesAlert: alertIsHeld)
        }
    }

    /// - Returns: what is held carries an alert.
    private mutating func takeNewest(_ hash: InspectedHash) throws(InspectionError) -> Bool {
        guard var record = hash.reader("v") else { return false }
        let version = try record.version()
        let byte = try record.byte()
        let isEnd = byte < UInt8(ascii: "a")
        let letter = byte | 0x20
        guard let state = State(letter: letter) else { throw record.error }
        newest = Newest(version: version, isEnd: isEnd, state: state)
        let timestamp = try record.number(digits: ScriptVersion.timestampDigits)
        let at = try record.milliseconds()
        if at > 0 { sent = Sent(timestampSeconds: timestamp, atMilliseconds: at) }
        _ = try record.byte()
        let digest = record.rest
        guard digest.isEmpty || digest.count == 8 else { throw record.error }
        if !digest.isEmpty { shownDigest = digest.reduce(0) { $0 << 8 | UInt64($1) } }
        return [UInt8(ascii: "i"), UInt8(ascii: "l"), UInt8(ascii: "x"), UInt8(ascii: "y")].contains(letter)
    }

    private mutating func takePace(_ hash: InspectedHash) throws(InspectionError) {
        guard var record = hash.reader("p") else { return }
        updatesUntilMilliseconds = try record.milliseconds()
        allowsFrequentUpdates = try record.byte() == UInt8(ascii: "1")
        if record.rest.isEmpty { return }
        fullAtMilliseconds = try record.milliseconds()
        if record.rest.isEmpty { return }
        doublings = Int64(clamping: try record.number(digits: 2))
        limitedAtMilliseconds = try record.milliseconds()
        guard record.rest.isEmpty else { throw record.error }
    }

    // MARK: - By a policy's numbers

    /// Doublings of the spacing that are in force.
    public func stretchLevel(_ numbers: PaceNumbers, nowMilliseconds now: Int64) -> Int {
        guard let limitedAtMilliseconds, now >= limitedAtMilliseconds else { return 0 }
        let recovered = (now &- limitedAtMilliseconds) / numbers.throttleRecoveryMilliseconds
        return Int(clamping: max(0, doublings &- recovered))
    }

    /// The spacing in force.
    public func spacingMilliseconds(_ numbers: PaceNumbers, nowMilliseconds now: Int64) -> Int64 {
        let level = stretchLevel(numbers, nowMilliseconds: now)
        // More than 22 doublings of a millisecond pass the longest spacing.
        let stretched = level == 0 ? 0 : numbers.spacingMilliseconds << min(level, 22)
        return max(numbers.spacingMilliseconds, min(stretched, numbers.throttledSpacingMaxMilliseconds))
    }

    /// When the next push may go; nil: at once.
    public func waitUntilMilliseconds(_ numbers: PaceNumbers, nowMilliseconds now: Int64) -> Int64? {
        guard let sent, sent.atMilliseconds <= now else { return nil }
        let until = sent.atMilliseconds &+ spacingMilliseconds(numbers, nowMilliseconds: now)
        return until > now ? until : nil
    }

    /// The bucket of priority 10 that counts now.
    public func budget(_ numbers: PaceNumbers, nowMilliseconds now: Int64) -> InspectedBudget {
        let bucket = allowsFrequentUpdates ? numbers.frequentBudget : numbers.budget
        return InspectedBudget(bucket, fullAtMilliseconds: fullAtMilliseconds, nowMilliseconds: now)
    }
}

extension ActivityInspection.State {
    fileprivate init?(letter: UInt8) {
        switch letter {
        case UInt8(ascii: "w"), UInt8(ascii: "x"): self = .waiting
        case UInt8(ascii: "a"), UInt8(ascii: "k"), UInt8(ascii: "l"), UInt8(ascii: "y"): self = .sending
        case UInt8(ascii: "b"): self = .startSending
        case UInt8(ascii: "h"), UInt8(ascii: "i"): self = .held
        case UInt8(ascii: "s"): self = .settled
        case UInt8(ascii: "f"): self = .notShown
        default: return nil
        }
    }
}
