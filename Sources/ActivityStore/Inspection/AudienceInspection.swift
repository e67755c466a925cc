public import LiveActivity

/// The content of an audience's record in readable form.
public struct AudienceInspection: Sendable, Equatable {
    /// The newest version. It was admitted to be sent, or was `unchanged`.
    public struct NewestVersion: Sendable, Equatable {
        public let version: Version
        public let isSettled: Bool
    }

    /// The newest version that was admitted to be sent.
    public struct AdmittedVersion: Sendable, Equatable {
        public let version: Version
        /// The digest of the state that members show after this version.
        public let digest: UInt64
        public let isEnd: Bool
        public let isStart: Bool
        public let grant: AudienceGrant
        public let admittedAtMilliseconds: Int64
        /// Until when the version's body is valid for members that join, UNIX seconds.
        public let expirationSeconds: Int64
    }

    /// How far a version has come: which of its ranges are finished, and with which counts.
    public struct FanOut: Sendable, Equatable {
        public let version: Version
        public let rangeCount: Int
        public let admittedAtMilliseconds: Int64
        /// The indexes of the finished ranges.
        public internal(set) var finishedRanges: Set<Int> = []
        /// The sum over the finished ranges.
        public internal(set) var counts = OutcomeCounts()
        public internal(set) var times = ResponseTimes()

        /// Whether all ranges and all broadcasts are finished.
        public let isFinished: Bool
    }

    /// The last checkpoint of a range's round. Rounds of starts have their checkpoints in another record.
    public struct RangeCheckpoint: Sendable, Equatable {
        public let range: SegmentRange
        /// The text of the checkpoint, in the format of `Checkpoint`.
        public let checkpoint: [UInt8]
    }

    /// A broadcast channel that the keeper of channels wrote into the record.
    public struct Channel: Sendable, Equatable {
        public let channel: AudienceChannel
        public let createdAtMilliseconds: Int64
    }

    /// The channel in production, then the channel in the sandbox, each only if it exists.
    public private(set) var channels: [Channel] = []
    public private(set) var newestVersion: NewestVersion?
    public private(set) var admittedVersion: AdmittedVersion?
    /// The version of the newest start; nil if no start was admitted.
    public private(set) var newestStart: Version?
    /// The progress of the last versions, in the order of their admission.
    public private(set) var fanOuts: [FanOut] = []
    /// The last checkpoints, in the order of the ranges.
    public private(set) var rangeCheckpoints: [RangeCheckpoint] = []
    private var budgetFullAtMilliseconds: Int64 = 0
    private var frequentBudgetFullAtMilliseconds: Int64 = 0

    /// - Parameter fields: the fields of the audience's hash.
    public init(fields: [(field: [UInt8], value: [UInt8])]) throws(InspectionError) {
        let values = Dictionary(fields.map { ($0.field, $0.value) }) { $1 }
        func part(_ letter: Character) -> InspectedField? {
            values[Array(letter.utf8)].map { InspectedField(name: String(letter), bytes: $0[...]) }
        }
        if var part = part("n") {
            let version = try part.readBinaryVersion()
            newestVersion = NewestVersion(version: version, isSettled: try part.readByte() == UInt8(ascii: "s"))
        }
        if var part = part("a") { admittedVersion = try AdmittedVersion(&part) }
        if var part = part("s"), !part.isEmpty { newestStart = try part.readBinaryVersion() }
        if var part = part("f") {
            budgetFullAtMilliseconds = try part.readBinaryMilliseconds()
            frequentBudgetFullAtMilliseconds = try part.readBinaryMilliseconds()
        }
        if var part = part("l") {
            while !part.isEmpty { fanOuts.append(try FanOut(&part, values)) }
        }
        for (field, value) in values where field.first == UInt8(ascii: "p") && !value.isEmpty {
            var part = InspectedField(name: "p", bytes: field.dropFirst())
            let (count, index) = (Int(try part.readNumber(bytes: 2)), Int(try part.readNumber(bytes: 2)))
            guard let range = SegmentRange(index: index, rangeCount: count) else { throw part.error }
            rangeCheckpoints.append(RangeCheckpoint(range: range, checkpoint: value))
        }
        for environment in APNsEnvironment.allCases {
            let name = environment == .production ? "hp" : "hs"
            guard let value = values[Array(name.utf8)] else { continue }
            channels.append(try Channel(InspectedField(name: name, bytes: value[...]), environment))
        }
        rangeCheckpoints.sort { ($0.range.rangeCount, $0.range.index) < ($1.range.rangeCount, $1.range.index) }
    }

    /// Returns what is left now of the audience's two budgets for priority 10: one is for members without frequent
    /// updates, the other for members with them.
    public func budgets(
        _ pace: Policy.Pace,
        nowMilliseconds: Int64
    ) -> (budget: InspectedBudget, frequentBudget: InspectedBudget) {
        (
            InspectedBudget(
                pace.budget,
                fullAtMilliseconds: budgetFullAtMilliseconds,
                nowMilliseconds: nowMilliseconds
            ),
            InspectedBudget(
                pace.frequentBudget,
                fullAtMilliseconds: frequentBudgetFullAtMilliseconds,
                nowMilliseconds: nowMilliseconds
            )
        )
    }
}

extension AudienceInspection.Channel {
    fileprivate init(_ field: InspectedField, _ environment: APNsEnvironment) throws(InspectionError) {
        let value = field.unreadBytes
        guard let channel = value.withUnsafeBytes({ AudienceChannel(field: $0, environment: environment) }) else {
            throw field.error
        }
        var rest = field
        // Skips the storage policy, which `channel` already has.
        _ = try rest.readByte()
        self.init(channel: channel, createdAtMilliseconds: Int64(clamping: try rest.readNumber(bytes: 8)))
    }
}

extension AudienceInspection.AdmittedVersion {
    fileprivate init(_ part: inout InspectedField) throws(InspectionError) {
        version = try part.readBinaryVersion()
        digest = try part.readNumber(bytes: 8)
        let flags = try part.readByte()
        (isEnd, isStart) = (flags & 1 != 0, flags & 2 != 0)
        grant = AudienceGrant(
            timestamp: try part.readBinarySeconds(),
            priority: try part.readByte(),
            frequentUpdatesPriority: try part.readByte(),
            isDemoted: flags & 4 != 0,
            rangeCount: UInt16(try part.readNumber(bytes: 2))
        )
        admittedAtMilliseconds = try part.readBinaryMilliseconds()
        expirationSeconds = Int64(bitPattern: try part.readNumber(bytes: 8))
    }
}

extension AudienceInspection.FanOut {
    /// - Parameters:
    ///   - part: the field `l`, from which this version's bytes are read.
    ///   - values: all fields of the hash. They say which ranges are finished, and with which counts.
    fileprivate init(_ part: inout InspectedField, _ values: [[UInt8]: [UInt8]]) throws(InspectionError) {
        let name = Array(part.unreadBytes.prefix(StoredVersion.byteCount + 2))
        version = try part.readBinaryVersion()
        rangeCount = Int(try part.readNumber(bytes: 2))
        admittedAtMilliseconds = try part.readBinaryMilliseconds()
        isFinished = try part.readByte() & 1 == 1
        guard SegmentRange(index: 0, rangeCount: rangeCount) != nil else { throw part.error }
        let stored = values[[UInt8(ascii: "t")] + name]?.prefix(StoredCounts.byteCount)
        if isFinished, let totals = stored?.withUnsafeBytes({ StoredCounts.read($0) }) {
            finishedRanges = Set(0..<rangeCount)
            (counts, times) = totals
        }
        guard !isFinished else { return }
        for index in 0..<rangeCount {
            let field = [UInt8(ascii: "m")] + name + [UInt8(index & 255), UInt8(index >> 8)]
            guard let part = values[field]?.withUnsafeBytes({ StoredCounts.read($0) }) else { continue }
            finishedRanges.insert(index)
            counts.add(part.0)
            times.merge(part.1)
        }
    }
}

extension InspectedField {
    fileprivate mutating func readBinaryVersion() throws(InspectionError) -> Version {
        let timestamp = try readBinarySeconds()
        return Version(timestamp: timestamp, sequence: try readNumber(bytes: 8))
    }
}
