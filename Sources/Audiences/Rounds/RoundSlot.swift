import LiveActivity

struct RoundKey: Hashable {
    var application: UInt16
    var digest: AudienceDigest
    var range: SegmentRange
    /// Starts go to devices and the rest to activities: neither overtakes the other.
    var startsDevices: Bool
}

/// The round of one range of an audience.
struct RoundSlot: BitwiseCopyable {
    enum Phase: UInt8, BitwiseCopyable {
        /// Asks the store where the last owner stood.
        case claiming
        /// The last owner had newer versions under way: their records follow in the partition.
        case awaitingVersions
        /// Reads the members again that the last owner had parked.
        case restoring
        case running
        /// All versions are finished; where it stands is recorded once more.
        case closing
        /// Its partition is being revoked: what is under way gets its answer, then where it stands is recorded.
        case draining
        /// Another has claimed it, though the partition is this lane's: a claim of an earlier owner came late, or the partition is being
        /// taken away. When what is on its way has its answers, and after a pause, the round is claimed again.
        case lost
        /// Its partition was released, or it was lost at its end: nothing is sent or recorded any more.
        case abandoned
    }

    var application: UInt16
    var digest: AudienceDigest
    var range: SegmentRange
    /// Its members are devices, and each gets a start of its own as a command.
    var startsDevices: Bool
    var identifier: HeapBytes
    var partition: UInt32
    var epoch: UInt32
    var phase = Phase.claiming
    var claim: UInt64
    /// How often it was lost, and when it is claimed again; monotonic.
    var losses: UInt8 = 0
    var claimsAgainMilliseconds: Int64 = .max
    /// When the store was seen to have lost the round with its members, monotonic; `.min`: it has not.
    var membersLostMilliseconds = Int64.min
    /// Positions of one lap.
    var length: UInt64

    // Versions, oldest first.
    var oldest: UInt32 = .max
    var newest: UInt32 = .max
    var versionCount: UInt16 = 0
    /// Versions that are in no window any more and not freed.
    var lateCount: UInt16 = 0
    /// The newest version that was settled here.
    var lastSettled = Version(timestamp: 0, sequence: 0)
    /// The newest version that the store has admitted, and since when it is newer than all that have come.
    var newestAdmitted = Version(timestamp: 0, sequence: 0)
    var behindSinceMilliseconds: Int64 = .max

    /// The first of its records that was passed over and is not being read again; `.max`: none was.
    var passedOverOffset: Int64 = .max

    // Positions.
    /// Below it every member has its outcome or is parked.
    var watermark: UInt64 = 0
    /// One above the member that was handed out last.
    var sendPosition: UInt64 = 0
    /// What is read next.
    var readPosition: UInt64 = 0
    /// Since when versions have come and nobody was sent to, monotonic; `.max`: not known.
    var standstillMilliseconds: Int64 = .max
    /// When the command was admitted since which there have always been members that the round had yet to reach, UNIX milliseconds.
    var unreachedSinceMilliseconds: Int64 = 0

    // Pages, in the order of their positions.
    var firstPage: UInt32 = .max
    var lastPage: UInt32 = .max
    /// The page whose members are handed out now.
    var sendPage: UInt32 = .max
    var pageCount: UInt16 = 0
    var awaitsPage = false

    // Members under way.
    var inFlight: UInt32 = 0
    /// Notices, and parked members that are read again.
    var noticeCount: UInt32 = 0
    var firstParked: UInt32 = .max
    var parkedCount: UInt32 = 0
    /// Of the parked members; `.max`: there are none.
    var lowestParked: UInt64 = .max
    /// When the first parked member of production and of sandbox is due; monotonic.
    var parkedDue: InlineArray<2, Int64> = .init(repeating: .max)

    // Its app's line of rounds that may have something to send, and the line of those that want a page.
    var isInLine = false
    var nextInLine: UInt32 = .max
    /// When its turn came its pages were too old. It goes before the others once it has read them again, or they would be too old again.
    var goesFirst = false
    /// Pushes handed out since it came to the front of the line.
    var burst: UInt16 = 0
    var nextAwaitingPage: UInt32 = .max
    var restored = RestoredRound.none

    // Checkpoints.
    /// Grows with all that a checkpoint says.
    var revision: UInt64 = 0
    var recordedRevision: UInt64 = 0
    var askedRevision: UInt64 = 0
    /// The checkpoint that is being recorded, and the last one that was: from there a round begins again that the store has lost.
    var askedText = HeapBytes.none
    var recordedText = HeapBytes.none
    var checkpointedMilliseconds: Int64 = .min
    /// Calls of the round itself.
    var isCallOutstanding = false
    /// What is armed in the timers.
    var timerMilliseconds: Int64 = .max

    /// Under which the store keeps where the round stands. Rounds of starts stand beside the others of their range.
    var progressDigest: AudienceDigest {
        startsDevices ? AudienceDigest(value: digest.value ^ 0x5354_4152_5453_2121) : digest
    }

    func freeBytes() {
        identifier.free()
        restored.free()
        askedText.free()
        recordedText.free()
    }

    /// Asks once more where the round stands. Its versions stay; nothing of it is on its way.
    mutating func beginAgain(claim: UInt64) {
        restored.free()
        restored = .none
        self.claim = claim
        phase = .claiming
        membersLostMilliseconds = .min
        (watermark, sendPosition, readPosition) = (0, 0, 0)
        lastSettled = Version(timestamp: 0, sequence: 0)
        newestAdmitted = lastSettled
        behindSinceMilliseconds = .max
        recordedRevision = revision
        checkpointedMilliseconds = .min
        isCallOutstanding = true
    }
}

/// What the last owner's checkpoint says, until it is taken over.
struct RestoredRound: BitwiseCopyable {
    var text: HeapBytes
    /// The newest version that was under way.
    var newest = Version(timestamp: 0, sequence: 0)
    /// Positions of parked members that were not read again yet, ascending.
    var parked: HeapBytes
    var parkedTaken = 0

    static var none: RestoredRound { RestoredRound(text: .none, parked: .none) }

    var parkedCount: Int { parked.count / 8 }
    /// The next position to be read again.
    var nextParked: UInt64? {
        parkedTaken < parkedCount ? parked.bytes.load(fromByteOffset: parkedTaken * 8, as: UInt64.self) : nil
    }

    func free() {
        text.free()
        parked.free()
    }
}
