public import LiveActivity

/// The content of an audience's hash in readable form.
public struct AudienceInspection: Sendable, Equatable {
    /// The audience's newest version, whether it was admitted to be sent, or got the verdict `unchanged` and was not
    /// sent.
    public struct NewestVersion: Sendable, Equatable {
        public let version: Version
        public let isSettled: Bool
    }

    /// The audience's newest version that was admitted to be sent.
    public struct AdmittedVersion: Sendable, Equatable {
        public let version: Version
        /// The digest of the state that members show after the push of this version.
        public let digest: UInt64
        public let isEnd: Bool
        public let isStart: Bool
        public let grant: AudienceGrant
        public let admittedAtMilliseconds: Int64
        /// Until when members that join may get the version's body, UNIX seconds.
        public let expirationSeconds: Int64
    }

    /// The progress of a version's fan-out: which of its ranges are finished, and how many members had each outcome.
    public struct Fanout: Sendable, Equatable {
        public let version: Version
        public let rangeCount: Int
        public let admittedAtMilliseconds: Int64
        /// The indexes of the finished ranges.
        public internal(set) var finishedRanges: Set<Int> = []
        /// How many members had each outcome, summed over the finished ranges.
        public internal(set) var counts = MemberOutcomeCounts()
        public internal(set) var times = ResponseTimes()

        /// Whether all ranges and all broadcasts are finished.
        public let isFinished: Bool
    }

    /// The last checkpoint of a range's round. (Rounds of starts have their checkpoints in another hash, so they are
    /// not here.)
    public struct RangeCheckpoint: Sendable, Equatable {
        public let range: SegmentRange
        /// The text of the checkpoint, in the format of `Checkpoint`.
        public let checkpoint: [UInt8]
    }

    /// A broadcast channel that `ChannelKeeper` wrote into the audience's hash.
    public struct Channel: Sendable, Equatable {
        public let channel: AudienceChannel
        public let createdAtMilliseconds: Int64
    }

    /// The audience's channels: at most one in production, then at most one in the sandbox.
    public private(set) var channels: [Channel] = []
    public private(set) var newestVersion: NewestVersion?
    public private(set) var admittedVersion: AdmittedVersion?
    /// The version of the newest start; nil if no start was admitted.
    public private(set) var newestStart: Version?
    /// The fan-outs of the last versions, in the order of their admission.
    public private(set) var fanouts: [Fanout] = []
    /// The last checkpoint of each range that has one, in the order of the ranges.
    public private(set) var rangeCheckpoints: [RangeCheckpoint] = []
    private var budgetFullAtMilliseconds: Int64 = 0
    private var frequentBudgetFullAtMilliseconds: Int64 = 0

    /// Decodes an audience's hash.
    ///
    /// - Parameter fields: all fields of the hash.
    public init(fields: [(field: [UInt8], value: [UInt8])]) throws(InspectionError) {
        let valuesByField = Dictionary(fields.map { ($0.field, $0.value) }) { $1 }
        func inspectedField(_ letter: Character) -> InspectedField? {
            valuesByField[Array(letter.utf8)].map { InspectedField(name: String(letter), bytes: $0[...]) }
        }
        if var field = inspectedField("n") {
            let version = try field.readVersion()
            newestVersion = NewestVersion(version: version, isSettled: try field.readByte() == UInt8(ascii: "s"))
        }
        if var field = inspectedField("a") { admittedVersion = try AdmittedVersion(&field) }
        if var field = inspectedField("s"), !field.isEmpty { newestStart = try field.readVersion() }
        if var field = inspectedField("f") {
            budgetFullAtMilliseconds = try field.readBinaryMilliseconds()
            frequentBudgetFullAtMilliseconds = try field.readBinaryMilliseconds()
        }
        if var field = inspectedField("l") {
            while !field.isEmpty { fanouts.append(try Fanout(&field, valuesByField)) }
        }
        // A field with a checkpoint is named `p`, followed by the number of ranges and the range's index.
        for (name, checkpoint) in valuesByField where name.first == UInt8(ascii: "p") && !checkpoint.isEmpty {
            var rangeName = InspectedField(name: "p", bytes: name.dropFirst())
            let rangeCount = Int(try rangeName.readNumber(byteCount: 2))
            let index = Int(try rangeName.readNumber(byteCount: 2))
            guard let range = SegmentRange(index: index, rangeCount: rangeCount) else { throw rangeName.error }
            rangeCheckpoints.append(RangeCheckpoint(range: range, checkpoint: checkpoint))
        }
        for environment in APNsEnvironment.allCases {
            let name = environment == .production ? "hp" : "hs"
            guard let channel = valuesByField[Array(name.utf8)] else { continue }
            channels.append(try Channel(InspectedField(name: name, bytes: channel[...]), environment))
        }
        rangeCheckpoints.sort { ($0.range.rangeCount, $0.range.index) < ($1.range.rangeCount, $1.range.index) }
    }

    /// Returns what is left now of the audience's two budgets for priority 10: `frequentBudget` for the members with
    /// frequent updates, `budget` for all others.
    public func remainingBudgets(
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
        let bytes = field.unreadBytes
        guard let channel = bytes.withUnsafeBytes({ AudienceChannel(field: $0, environment: environment) }) else {
            throw field.error
        }
        var unread = field
        // Skip the first byte, the storage policy. `channel` already has it.
        _ = try unread.readByte()
        self.init(channel: channel, createdAtMilliseconds: Int64(clamping: try unread.readNumber(byteCount: 8)))
    }
}

extension AudienceInspection.AdmittedVersion {
    fileprivate init(_ field: inout InspectedField) throws(InspectionError) {
        version = try field.readVersion()
        digest = try field.readNumber(byteCount: 8)
        let flags = try field.readByte()
        isEnd = flags & StoredAdmissionBits.isEndBit != 0
        isStart = flags & StoredAdmissionBits.isStartBit != 0
        grant = AudienceGrant(
            timestamp: try field.readBinarySeconds(),
            priority: try field.readByte(),
            frequentUpdatesPriority: try field.readByte(),
            isDemoted: flags & StoredAdmissionBits.isDemotedBit != 0,
            rangeCount: UInt16(try field.readNumber(byteCount: 2))
        )
        admittedAtMilliseconds = try field.readBinaryMilliseconds()
        expirationSeconds = Int64(bitPattern: try field.readNumber(byteCount: 8))
    }
}

extension AudienceInspection.Fanout {
    /// Reads the progress of the next version in the field `l`.
    ///
    /// - Parameters:
    ///   - field: the unread part of the field `l`. The version's bytes are read from it.
    ///   - valuesByField: all fields of the hash. They say which ranges are finished, and with which counts.
    fileprivate init(_ field: inout InspectedField, _ valuesByField: [[UInt8]: [UInt8]]) throws(InspectionError) {
        let fanoutName = Array(field.unreadBytes.prefix(StoredVersion.byteCount + 2))
        version = try field.readVersion()
        rangeCount = Int(try field.readNumber(byteCount: 2))
        admittedAtMilliseconds = try field.readBinaryMilliseconds()
        isFinished = try field.readByte() & StoredFanout.isFinishedBit != 0
        guard SegmentRange(index: 0, rangeCount: rangeCount) != nil else { throw field.error }
        let storedTotals = valuesByField[[UInt8(ascii: "t")] + fanoutName]?.prefix(StoredCounts.byteCount)
        if isFinished, let totals = storedTotals?.withUnsafeBytes({ StoredCounts.read($0) }) {
            finishedRanges = Set(0..<rangeCount)
            (counts, times) = totals
        }
        guard !isFinished else { return }
        for index in 0..<rangeCount {
            let rangeField = [UInt8(ascii: "m")] + fanoutName + [UInt8(index & 255), UInt8(index >> 8)]
            let storedCounts = valuesByField[rangeField]?.withUnsafeBytes { StoredCounts.read($0) }
            guard let (rangeCounts, rangeTimes) = storedCounts else { continue }
            finishedRanges.insert(index)
            counts.add(rangeCounts)
            times.merge(rangeTimes)
        }
    }
}
