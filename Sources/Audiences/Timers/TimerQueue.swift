/// The times at which slots must be checked: a heap with the earliest timer first.
///
/// When the time of a slot changes, its old timer stays in the heap, because the slot does not know where this timer
/// is. So the reader of the queue must compare each timer with the time in the timer's slot, and must remove obsolete
/// timers when the queue is full. (R4)
struct TimerQueue: ~Copyable {
    /// The slot on which the core works when the timer is due.
    enum Owner: BitwiseCopyable, Hashable {
        case audience(AudienceIndex)
        case round(RoundIndex)
        case membershipChange(MembershipChangeIndex)
        case channel(ChannelIndex)
        /// The wait of a command for its channel.
        case channelWait(CommandIndex)
    }

    struct Timer: BitwiseCopyable {
        var dueMilliseconds: Int64
        var owner: Owner
    }

    private var timers: [Timer] = []
    /// The maximum number of timers, including obsolete ones. ``append(_:)`` traps on a further timer.
    let timersMax: Int

    init(timersMax: Int) { self.timersMax = timersMax }

    var isFull: Bool { timers.count == timersMax }

    var earliestDueMilliseconds: Int64? { timers.first?.dueMilliseconds }

    mutating func append(_ timer: Timer) {
        precondition(!isFull, "obsolete timers are removed first")
        timers.append(timer)
        var index = timers.count - 1
        while index > 0, case let parent = (index - 1) / 2,
            timers[index].dueMilliseconds < timers[parent].dueMilliseconds
        {
            timers.swapAt(index, parent)
            index = parent
        }
    }

    mutating func takeAll() -> [Timer] {
        defer { timers.removeAll(keepingCapacity: true) }
        return timers
    }

    mutating func popDue(now milliseconds: Int64) -> Timer? {
        guard let first = timers.first, first.dueMilliseconds <= milliseconds else { return nil }
        let last = timers.removeLast()
        guard !timers.isEmpty else { return first }
        timers[0] = last
        var index = 0
        while true {
            var earliest = index
            for child in [2 * index + 1, 2 * index + 2] where child < timers.count {
                if timers[child].dueMilliseconds < timers[earliest].dueMilliseconds { earliest = child }
            }
            guard earliest != index else { return first }
            timers.swapAt(index, earliest)
            index = earliest
        }
    }
}
