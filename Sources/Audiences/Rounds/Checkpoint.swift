import Delivery
import LiveActivity

/// How far a round has come (``RoundProgress``), as text of at most ``AudienceLimits/checkpointBytesMax``. (R29)
///
/// The text has six bits in each character, as in `SettledOffsetsText`. All numbers are varints, and each list begins
/// with its count:
/// 1. The format (1), the completed position, and the newest settled version.
/// 2. For each version under way, oldest first: timestamp; sequence; completed position minus `startPosition`;
///    `positionCount` + 1, or 0 for nil; the counts; the times of the first and the last response, each + 1, or 0 for
///    none.
/// 3. The positions of the parked members, ascending: for the first, the completed position minus its position; for
///    each other, its distance from the previous one.
struct Checkpoint: Equatable {
    /// A version under way, and how far it has come.
    struct Entry: Equatable {
        var version: Version
        var startPosition: UInt64
        /// The number of positions in the window of a closed version. Nil: the version is not closed, so its window is
        /// one lap.
        var positionCount: UInt64?
        /// How many members have each outcome: of those in the version's window that are below the completed position
        /// and not parked.
        var counts = MemberOutcomeCounts()
        var times = ResponseTimes()
    }

    private static let formatVersion: UInt8 = 1
    /// The highest completed position that is accepted in a checkpoint, so that sums of positions cannot overflow. It
    /// is far above any position of a real round.
    private static let positionMax: UInt64 = 1 << 62

    var completedPosition: UInt64
    var newestSettledVersion: Version
    var entries: [Entry] = []
    /// The positions of the parked members, ascending and all below the completed position.
    var parkedPositions: [UInt64] = []

    /// Returns the text; nil if it is longer than ``AudienceLimits/checkpointBytesMax``.
    func encode() -> [UInt8]? {
        var payload: [UInt8] = [Self.formatVersion]
        Self.append(completedPosition, to: &payload)
        Self.append(newestSettledVersion, to: &payload)
        Self.append(UInt64(entries.count), to: &payload)
        for entry in entries {
            Self.append(entry.version, to: &payload)
            Self.append(completedPosition - entry.startPosition, to: &payload)
            Self.append(entry.positionCount.map { $0 + 1 } ?? 0, to: &payload)
            for outcome in MemberOutcome.allCases { Self.append(UInt64(entry.counts[outcome]), to: &payload) }
            Self.append(UInt64(max(-1, entry.times.firstResponseAtMilliseconds) + 1), to: &payload)
            Self.append(UInt64(max(-1, entry.times.lastResponseAtMilliseconds) + 1), to: &payload)
        }
        Self.append(UInt64(parkedPositions.count), to: &payload)
        var previousPosition: UInt64?
        for position in parkedPositions {
            Self.append(previousPosition.map { position - $0 } ?? completedPosition - position, to: &payload)
            previousPosition = position
        }
        guard (payload.count * 8 + 5) / 6 <= AudienceLimits.checkpointBytesMax else { return nil }
        var text: [UInt8] = []
        SettledOffsetsText.appendCharacters(of: payload, to: &text)
        return text
    }

    /// Reads a checkpoint; nil if the text is not of this format.
    init?(_ text: UnsafeRawBufferPointer) {
        guard let payload = SettledOffsetsText.decodePayload(of: text), payload.first == Self.formatVersion else {
            return nil
        }
        var reader = Reader(payload: payload, byteOffset: 1)
        guard let completedPosition = reader.readNumber(), completedPosition <= Self.positionMax,
            let newestSettledVersion = reader.readVersion(),
            let entryCount = reader.readNumber(),
            entryCount <= UInt64(payload.count)
        else { return nil }
        self.init(completedPosition: completedPosition, newestSettledVersion: newestSettledVersion)
        for _ in 0..<entryCount {
            guard let entry = reader.readEntry(completedPosition: completedPosition) else { return nil }
            entries.append(entry)
        }
        guard let parkedMemberCount = reader.readNumber(), parkedMemberCount <= UInt64(payload.count) else {
            return nil
        }
        for _ in 0..<parkedMemberCount {
            guard let distance = reader.readNumber() else { return nil }
            guard let previousPosition = parkedPositions.last else {
                guard distance > 0, distance <= completedPosition else { return nil }
                parkedPositions.append(completedPosition - distance)
                continue
            }
            guard distance < completedPosition - previousPosition else { return nil }
            parkedPositions.append(previousPosition + distance)
        }
    }

    init(completedPosition: UInt64, newestSettledVersion: Version) {
        self.completedPosition = completedPosition
        self.newestSettledVersion = newestSettledVersion
    }

    private struct Reader {
        let payload: [UInt8]
        var byteOffset: Int

        mutating func readNumber() -> UInt64? {
            var (number, shift) = (UInt64(0), UInt64(0))
            while byteOffset < payload.count, shift < 64 {
                let byte = payload[byteOffset]
                byteOffset += 1
                number |= UInt64(byte & 127) << shift
                if byte < 128 { return number }
                shift += 7
            }
            return nil
        }

        mutating func readVersion() -> Version? {
            guard let timestamp = readNumber(), timestamp <= UInt64(Limits.timestampMax), let sequence = readNumber()
            else {
                return nil
            }
            return Version(timestamp: Int64(timestamp), sequence: sequence)
        }

        /// Reads a time, UNIX milliseconds; -1 if the text has none. Returns nil if the text is malformed.
        mutating func readTime() -> Int64? {
            guard let number = readNumber(), number < 1 << 62 else { return nil }
            return Int64(number) - 1
        }

        mutating func readEntry(completedPosition: UInt64) -> Entry? {
            guard let version = readVersion(), let distance = readNumber(), distance <= completedPosition,
                let positionCountPlusOne = readNumber(),
                // A closed version ends at or below the completed position.
                positionCountPlusOne == 0 || positionCountPlusOne - 1 <= distance
            else {
                return nil
            }
            var entry = Entry(
                version: version,
                startPosition: completedPosition - distance,
                positionCount: positionCountPlusOne == 0 ? nil : positionCountPlusOne - 1
            )
            for outcome in MemberOutcome.allCases {
                guard let count = readNumber() else { return nil }
                entry.counts[outcome] = UInt32(clamping: count)
            }
            guard let firstResponseAtWallMilliseconds = readTime(),
                let lastResponseAtWallMilliseconds = readTime()
            else { return nil }
            entry.times = ResponseTimes(
                firstResponseAtMilliseconds: firstResponseAtWallMilliseconds,
                lastResponseAtMilliseconds: lastResponseAtWallMilliseconds
            )
            return entry
        }
    }

    private static func append(_ version: Version, to payload: inout [UInt8]) {
        append(UInt64(max(0, version.timestamp)), to: &payload)
        append(version.sequence, to: &payload)
    }

    private static func append(_ number: UInt64, to payload: inout [UInt8]) {
        var remainingBits = number
        while remainingBits >= 128 {
            payload.append(UInt8(truncatingIfNeeded: remainingBits) | 128)
            remainingBits >>= 7
        }
        payload.append(UInt8(remainingBits))
    }
}
