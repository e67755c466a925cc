import LiveActivity
import Redis

/// The size of each call of the script `audience`.
extension AudienceCall<UnsafeRawBufferPointer>.Operation {
    /// `argumentCount` includes the operation's name. `argumentBytesMax` is the maximum length of all other arguments
    /// together, in bytes.
    var scriptCallSize: (kind: AudienceCallKind, argumentCount: Int, argumentBytesMax: Int) {
        switch self {
        case .admit(let admission): (.admit, 8, 128 + admission.body.count)
        case .settle: (.settle, 2, 32)
        case .readNewestState: (.readNewestState, 1, 8)
        case .claim: (.claim, 3, 32)
        case .finishRange: (.finish, 4, 96)
        case .finishBroadcast: (.finish, 5, 104)
        case .checkpoint, .readDirectory, .readPage, .append:
            preconditionFailure("the script does not perform this operation")
        }
    }
}

extension RedisCommandWriter {
    mutating func writeHashArguments(_ operation: AudienceCall<UnsafeRawBufferPointer>.Operation) {
        switch operation {
        case .admit(let admission):
            writeArgument(operation: "admit")
            writeArguments(admission)
        case .settle(let version):
            writeArgument(operation: "settle")
            writeArgument(byteCount: StoredVersion.byteCount) { $0.writeStoredVersion(version) }
        case .readNewestState:
            writeArgument(operation: "newest")
        case .claim(let range, let claim):
            writeArgument(operation: "claim")
            writeArgument(range)
            writeArgument(number: claim, byteCount: 8)
        case .finishRange(let range, let version, let counts, let times):
            writeArgument(operation: "finish")
            writeArgument(byteCount: StoredVersion.byteCount + 2) {
                $0.writeStoredVersion(version)
                $0.writeNumber(UInt64(range.rangeCount), byteCount: 2)
            }
            writeArgument(number: UInt64(range.index), byteCount: 2)
            writeArgument(byteCount: StoredCounts.byteCount) { $0.writeCounts(counts, times) }
        case .finishBroadcast(let broadcast, let version, let outcome, let times):
            writeArgument(operation: "finish")
            writeArgument(byteCount: StoredVersion.byteCount + 2) {
                $0.writeStoredVersion(version)
                $0.writeNumber(UInt64(broadcast.rangeCount), byteCount: 2)
            }
            writeArgument(number: UInt64(StoredBroadcastCounts.index(of: broadcast.environment)), byteCount: 2)
            var counts = MemberOutcomeCounts()
            counts[outcome] = 1
            writeArgument(byteCount: StoredCounts.byteCount) { $0.writeCounts(counts, times) }
            writeArgument(number: Int(broadcast.broadcastCount))
        case .checkpoint, .readDirectory, .readPage, .append:
            preconditionFailure("the script does not perform this operation")
        }
    }

    mutating func writeCheckpointArguments(_ range: SegmentRange, claim: UInt64, text: UnsafeRawBufferPointer) {
        writeArgument(range)
        writeArgument(number: claim, byteCount: 8)
        writeArgument(text)
    }

    private mutating func writeArguments(_ admission: AudienceAdmission<UnsafeRawBufferPointer>) {
        writeArgument(byteCount: StoredVersion.byteCount) { $0.writeStoredVersion(admission.version) }
        writeArgument(number: admission.digest, byteCount: 8)
        writeArgument(number: Int(AudienceRequestBits.bits(of: admission)))
        writeArgument(number: Int(admission.rangeCount))
        writeArgument(byteCount: StoredPace.byteCount) {
            $0.writeBytes(StoredPace.byteCount) { StoredPace.write(admission.pace, to: $0) }
        }
        writeArgument(admission.body)
        writeArgument(number: UInt64(bitPattern: admission.expirationSeconds), byteCount: 8)
    }

    /// Writes a page's key: the hash tag of its segment, a letter, and the page's lower bound.
    mutating func writePageKey(_ tag: UnsafeRawBufferPointer, _ lowerBound: UInt32) {
        writeArgument(byteCount: tag.count + AudienceStoreKey.pageSuffixBytes) {
            $0.writeVerbatim(tag)
            $0.writeByte(AudienceStoreKey.pageLetter)
            $0.writeNumber(UInt64(lowerBound), byteCount: AudienceStoreKey.lowerBoundByteCount)
        }
    }

    mutating func writeArgument(bound: UInt32) {
        writeArgument(number: UInt64(bound), byteCount: AudienceStoreKey.lowerBoundByteCount)
    }

    private mutating func writeArgument(_ range: SegmentRange) {
        writeArgument(byteCount: 4) {
            $0.writeNumber(UInt64(range.rangeCount), byteCount: 2)
            $0.writeNumber(UInt64(range.index), byteCount: 2)
        }
    }

    private mutating func writeArgument(number: UInt64, byteCount: Int) {
        writeArgument(byteCount: byteCount) { $0.writeNumber(number, byteCount: byteCount) }
    }

    private mutating func writeNumber(_ number: UInt64, byteCount: Int) {
        writeBytes(byteCount) { LittleEndian.write(number, byteCount: byteCount, to: $0) }
    }

    private mutating func writeStoredVersion(_ version: Version) {
        writeBytes(StoredVersion.byteCount) { StoredVersion.write(version, to: $0) }
    }

    private mutating func writeCounts(_ counts: MemberOutcomeCounts, _ times: ResponseTimes) {
        for outcome in MemberOutcome.allCases {
            writeNumber(UInt64(counts[outcome]), byteCount: StoredCounts.countByteCount)
        }
        writeNumber(
            StoredCounts.storedNumber(ofMilliseconds: times.firstResponseAtMilliseconds),
            byteCount: StoredCounts.timeByteCount
        )
        writeNumber(
            StoredCounts.storedNumber(ofMilliseconds: times.lastResponseAtMilliseconds),
            byteCount: StoredCounts.timeByteCount
        )
    }
}

/// What a command to an audience is, and what it asks for: the bits in the operation `admit` of the script `audience`.
enum AudienceRequestBits {
    static let isEndBit: UInt8 = 1
    static let isStartBit: UInt8 = 2
    static let requestsHighPriorityBit: UInt8 = 4
    static let mayUseReserveBit: UInt8 = 8

    static func bits(of admission: AudienceAdmission<UnsafeRawBufferPointer>) -> UInt8 {
        var bits: UInt8 = admission.isEnd ? isEndBit : 0
        if admission.isStart { bits |= isStartBit }
        if admission.requestsHighPriority { bits |= requestsHighPriorityBit }
        if admission.mayUseReserve { bits |= mayUseReserveBit }
        return bits
    }
}

/// What an admitted command is, and what became of its priority: bits in the field `a` of an audience's hash. The
/// script copies the first two from the bits of the request.
enum StoredAdmissionBits {
    static let isEndBit = AudienceRequestBits.isEndBit
    static let isStartBit = AudienceRequestBits.isStartBit
    /// The command asked for priority 10, and a budget gave 5.
    static let isDemotedBit: UInt8 = 4
}

/// Byte 22 of a fan-out in the field `l` of an audience's hash. It is 2 × the number of broadcasts, plus 1 once all
/// ranges and broadcasts are finished. For example, 5 means: two broadcasts, and all is finished.
enum StoredFanout {
    static let isFinishedBit: UInt8 = 1
    static let broadcastCountFactor: Int64 = 2
}

/// How the script `audience` stores the counts of finished broadcasts: like those of finished ranges, but under indexes
/// that no range has.
enum StoredBroadcastCounts {
    /// Returns the number that Redis stores for a broadcast in the place of a range's index. No range has this number,
    /// because the index of a range is at most 255.
    static func index(of environment: APNsEnvironment) -> UInt16 { environment == .production ? 0xFFFE : 0xFFFF }

    /// The length of the part that counts a version's broadcasts by outcome, one byte each. A byte is enough, because a
    /// version has at most two broadcasts. This part follows the totals of the version's ranges (``StoredCounts``).
    static let byteCount = MemberOutcome.allCases.count

    static func readCounts(_ bytes: UnsafeRawBufferPointer) -> MemberOutcomeCounts {
        var counts = MemberOutcomeCounts()
        for (outcome, count) in zip(MemberOutcome.allCases, bytes) { counts[outcome] = UInt32(count) }
        return counts
    }
}

/// How the script `audience` stores the counts and times of one range, one broadcast or a whole version: one count for
/// each outcome, then the times of the first and the last response of APNs.
///
/// Those of a whole version are its totals: each count is summed over its ranges only, but the times are over its
/// ranges and broadcasts. The broadcasts' counts follow in a part of their own (``StoredBroadcastCounts``).
enum StoredCounts {
    static let countByteCount = 4
    static let timeByteCount = 6
    static let byteCount = MemberOutcome.allCases.count * countByteCount + 2 * timeByteCount

    /// Returns the number that stores a time: the milliseconds plus one; 0 if there is no time (`milliseconds` is -1).
    static func storedNumber(ofMilliseconds milliseconds: Int64) -> UInt64 {
        milliseconds < 0 ? 0 : UInt64(min(milliseconds, MemberEntryFormat.millisecondsMax - 1)) + 1
    }

    /// Reads counts and times; nil if there are not exactly ``byteCount`` bytes.
    static func read(_ bytes: UnsafeRawBufferPointer) -> (counts: MemberOutcomeCounts, times: ResponseTimes)? {
        guard bytes.count == byteCount else { return nil }
        var counts = MemberOutcomeCounts()
        var offset = 0
        for outcome in MemberOutcome.allCases {
            counts[outcome] = UInt32(truncatingIfNeeded: LittleEndian.read(bytes[offset..<(offset + countByteCount)]))
            offset += countByteCount
        }
        let first = LittleEndian.read(bytes[offset..<(offset + timeByteCount)])
        let last = LittleEndian.read(bytes[(offset + timeByteCount)...])
        let times = ResponseTimes(
            firstResponseAtMilliseconds: Int64(first) - 1,
            lastResponseAtMilliseconds: Int64(last) - 1
        )
        return (counts, times)
    }
}
