/// What one activity's turn is waiting for. One command of an activity is worked on at a time; the others wait in its list, where a
/// newer state replaces an older one.
enum ActivityPhase: UInt8 {
    /// Has commands of the batch that is being taken in. → what `begin` leads to, at the batch's end.
    case awakened
    /// Nothing is under way; the timer is set to the end of the spacing, or of a rider's patience. → `begin` if something waits then, else
    /// the slot is freed.
    case resting
    /// May go, but the lane reads ahead. → `begin` when it has caught up, or may wait no longer.
    case parked
    /// May go, but its app has as many pushes on their way as it is allowed. → `begin` when one of them is done; `ready` for a start
    /// that has been admitted and waited for the retry budget.
    case eligible
    /// A start asks the device's hash for its push-to-start token. → `admitting`, or `holding`.
    case addressing
    /// The current command is being admitted in Redis. → `ready`, `resting` (pace), `holding` (no token), or the next command.
    case admitting
    /// The current command has no token and is being stored in Redis until one registers. → the next command, or `admitting` again.
    case holding
    /// Admitted with a timestamp and a token; waits for a free stream. → `inFlight`.
    case ready
    /// With APNs. → the next command, `backingOff`, or `limiting`.
    case inFlight
    /// APNs limits the token, which Redis is being told. → what a retry leads to.
    case limiting
    /// The push was not processed and goes again by itself; the timer is set. → `ready`, `eligible` (a start that waited for the retry
    /// budget), or, when a newer state came, the next.
    case backingOff
}

/// One activity that has something waiting or under way, or that was sent to less than the spacing ago.
struct ActivitySlot: BitwiseCopyable {
    var hash: UInt64
    var application: UInt16
    var phase: ActivityPhase
    /// Counted among its app's pushes on their way.
    var holdsCredit = false
    var identifierBlock: Arena.Block
    var identifierCount: Int
    /// The command that is being worked on, or `.max`.
    var current: UInt32 = .max
    /// First and last of the waiting commands, or `.max`.
    var head: UInt32 = .max
    var tail: UInt32 = .max
    /// A command with an alert that was overtaken by one that another worker admitted: it waits for that one to be read here, to ride on
    /// with it. Or `.max`.
    var riderToBe: UInt32 = .max
    /// The record whose alert was last carried on, as a hint: it may be gone.
    var lastRider: UInt32 = .max
    var riderWaitsUntilMilliseconds: Int64 = 0
    /// Monotonic time before which no push may go; Redis has the last word.
    var restsUntilMilliseconds: Int64 = 0

    var identifier: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: identifierBlock.base, count: identifierCount)
    }
}
