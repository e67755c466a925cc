import LiveActivity
import Redis

/// Writes the calls of the script `audience` as arguments.
extension AudienceCall<UnsafeRawBufferPointer>.Operation {
    /// The call's kind, the number of arguments including the operation's letter, and the maximum length of all
    /// arguments together, in bytes.
    var recordCall: (kind: AudienceCallKind, argumentCount: Int, argumentBytesMax: Int) {
        switch self {
        case .admit(let admission): (.admit, 8, 128 + admission.body.count)
        case .settle: (.settle, 2, 32)
        case .newest: (.newest, 1, 8)
        case .claim: (.claim, 3, 32)
        case .finish: (.finish, 4, 96)
        case .finishBroadcast: (.finish, 5, 104)
        case .checkpoint, .directory, .page, .append: preconditionFailure("the script does not perform this operation")
        }
    }
}

extension RedisCommandWriter {
    mutating func recordArguments(_ operation: AudienceCall<UnsafeRawBufferPointer>.Operation) {
        switch operation {
        case .admit(let admission):
            argument(letter: UInt8(ascii: "a"))
            arguments(admission)
        case .settle(let version):
            argument(letter: UInt8(ascii: "s"))
            argument(count: StoredVersion.bytes) { $0.storedVersion(version) }
        case .newest:
            argument(letter: UInt8(ascii: "n"))
        case .claim(let range, let claim):
            argument(letter: UInt8(ascii: "c"))
            argument(range)
            argument(number: claim, bytes: 8)
        case .finish(let range, let version, let counts, let times):
            argument(letter: UInt8(ascii: "f"))
            argument(count: StoredVersion.bytes + 2) {
                $0.storedVersion(version)
                $0.number(UInt64(range.rangeCount), bytes: 2)
            }
            argument(number: UInt64(range.index), bytes: 2)
            argument(count: StoredCounts.bytes) { $0.counts(counts, times) }
        case .finishBroadcast(let part, let version, let outcome, let times):
            argument(letter: UInt8(ascii: "f"))
            argument(count: StoredVersion.bytes + 2) {
                $0.storedVersion(version)
                $0.number(UInt64(part.rangeCount), bytes: 2)
            }
            argument(number: UInt64(StoredBroadcast.index(of: part.environment)), bytes: 2)
            var counts = MemberCounts()
            counts[outcome] = 1
            argument(count: StoredCounts.bytes) { $0.counts(counts, times) }
            argument(number: Int(part.broadcastCount))
        case .checkpoint, .directory, .page, .append:
            preconditionFailure("the script does not perform this operation")
        }
    }

    mutating func checkpointArguments(_ range: SegmentRange, claim: UInt64, text: UnsafeRawBufferPointer) {
        argument(range)
        argument(number: claim, bytes: 8)
        argument(text)
    }

    private mutating func arguments(_ admission: AudienceAdmission<UnsafeRawBufferPointer>) {
        argument(count: StoredVersion.bytes) { $0.storedVersion(admission.version) }
        argument(number: admission.digest, bytes: 8)
        let bits =
            (admission.isEnd ? 1 : 0) | (admission.isStart ? 2 : 0) | (admission.requestsHighPriority ? 4 : 0)
            | (admission.mayUseReserve ? 8 : 0)
        argument(number: bits)
        argument(number: Int(admission.rangeCount))
        argument(count: StoredPace.bytes) { $0.bytes(StoredPace.bytes) { StoredPace.write(admission.pace, to: $0) } }
        argument(admission.body)
        argument(number: UInt64(bitPattern: admission.expiration), bytes: 8)
    }

    /// Writes a page's key: the hash tag of its segment, a letter and its lower bound.
    mutating func pageKey(_ tag: UnsafeRawBufferPointer, _ lowerBound: UInt32) {
        argument(count: tag.count + AudienceStoreKey.pageSuffixBytes) {
            $0.verbatim(tag)
            $0.byte(AudienceStoreKey.pageLetter)
            $0.number(UInt64(lowerBound), bytes: AudienceStoreKey.boundBytes)
        }
    }

    mutating func argument(bound: UInt32) { argument(number: UInt64(bound), bytes: AudienceStoreKey.boundBytes) }

    private mutating func argument(_ range: SegmentRange) {
        argument(count: 4) {
            $0.number(UInt64(range.rangeCount), bytes: 2)
            $0.number(UInt64(range.index), bytes: 2)
        }
    }

    private mutating func argument(number value: UInt64, bytes count: Int) {
        argument(count: count) { $0.number(value, bytes: count) }
    }

    private mutating func number(_ value: UInt64, bytes count: Int) {
        bytes(count) { LittleEndian.write(value, bytes: count, to: $0) }
    }

    private mutating func storedVersion(_ version: Version) {
        bytes(StoredVersion.bytes) { StoredVersion.write(version, to: $0) }
    }

    private mutating func counts(_ counts: MemberCounts, _ times: RoundTimes) {
        for outcome in MemberOutcome.allCases { number(UInt64(counts[outcome]), bytes: StoredCounts.countBytes) }
        number(StoredCounts.value(ofMilliseconds: times.firstResponseMilliseconds), bytes: StoredCounts.timeBytes)
        number(StoredCounts.value(ofMilliseconds: times.lastResponseMilliseconds), bytes: StoredCounts.timeBytes)
    }
}

/// How the script `audience` stores finished broadcasts: like ranges, with indexes that no range has.
enum StoredBroadcast {
    /// Returns the index of a broadcast. Ranges have lower indexes.
    static func index(of environment: APNsEnvironment) -> UInt16 { environment == .production ? 0xFFFE : 0xFFFF }

    /// The length of the part about broadcasts, which follows the totals of the ranges: a byte for each
    /// outcome.
    static let bytes = MemberOutcome.allCases.count

    static func read(_ bytes: UnsafeRawBufferPointer) -> MemberCounts {
        var counts = MemberCounts()
        for (outcome, count) in zip(MemberOutcome.allCases, bytes) { counts[outcome] = UInt32(count) }
        return counts
    }
}

/// The counts and times of one range or broadcast, or a version's totals, as the script `audience` stores them. The
/// totals have the counts of the ranges only, but the times of ranges and broadcasts.
enum StoredCounts {
    static let countBytes = 4
    static let timeBytes = 6
    static let bytes = MemberOutcome.allCases.count * countBytes + 2 * timeBytes

    /// Returns the number that stores a time: one more than the milliseconds; 0 for no time (-1).
    static func value(ofMilliseconds milliseconds: Int64) -> UInt64 {
        milliseconds < 0 ? 0 : UInt64(min(milliseconds, StoredMember.millisecondsMax - 1)) + 1
    }

    /// Reads counts and times; nil if the length is wrong.
    static func read(_ bytes: UnsafeRawBufferPointer) -> (MemberCounts, RoundTimes)? {
        guard bytes.count == self.bytes else { return nil }
        var counts = MemberCounts()
        var offset = 0
        for outcome in MemberOutcome.allCases {
            counts[outcome] = UInt32(truncatingIfNeeded: LittleEndian.read(bytes[offset..<(offset + countBytes)]))
            offset += countBytes
        }
        let first = LittleEndian.read(bytes[offset..<(offset + timeBytes)])
        let last = LittleEndian.read(bytes[(offset + timeBytes)...])
        let times = RoundTimes(firstResponseMilliseconds: Int64(first) - 1, lastResponseMilliseconds: Int64(last) - 1)
        return (counts, times)
    }
}
