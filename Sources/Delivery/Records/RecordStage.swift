/// How far a record has come, from its receipt until its offset is settled. Only `Records.enter` changes a stage. It
/// traps, in release builds too, on a change that `nextStages` does not list, such as a second outcome. (R7)
///
/// Most commands go this way:
///
///     received ─► waiting ─► current ─► finished ─► settled
///
/// The comment of each case lists the next stages after the word *Next*. Two events are left out there:
/// - A command that cannot be sent soon goes from `waiting` or `current` to `deferring`.
/// - If a partition is revoked, its records without an outcome become `dropped`. But a step that is under way, such as
///   a call or a push, first ends, and may give the record its outcome. A waiting start whose draw must be refunded
///   first becomes `refunding`.
enum RecordStage: UInt8 {
    /// The record is being decoded. It has this stage only while one method of the core runs. Next:
    /// - `waiting`, `riding` or `finished` for a command, depending on what already waits.
    /// - `awaitingRedis` for a lifetime command, except for a restart that was held.
    /// - `handedOver` for a command to an audience.
    /// - `awaitingRedis` or `unregistering` for a record of the registrations topic.
    /// - `finished` for an invalid record, and for a reread or old record that needs no action.
    case received
    /// The command is in its activity's waiting list. Next:
    /// - `current` when its turn comes.
    /// - `awaitingRedis` for a restart when its turn comes and Redis must be asked again (`checkRestartAgain`).
    /// - `riding` when another command replaces it and carries its alert.
    /// - `finished` when it expires, when another command replaces it and does not carry its alert, or when another
    ///   record of the same command stays in the list instead.
    case waiting
    /// The command is its activity's current one; `ActivityPhase` says what it waits for. Next:
    /// - `waiting` when it must wait for its turn again.
    /// - `riding` when a newer command replaces it and carries its alert.
    /// - `awaitingCarrier` when it has an alert and Redis has a newer command that is not settled.
    /// - `finished` when its outcome is known.
    case current
    /// A newer command carries the alert of this one (`RiderLink.carrier`). Next: `riding` (with another carrier),
    /// `waiting` or `finished`. The list of stages at the top of `Delivery+Riders.swift` says when.
    case riding
    /// The command's alert waits until this lane reads the newer command that Redis has. Next:
    /// - `riding` when that command carries the alert.
    /// - `finished` when that command cannot carry the alert, when the wait is over, or when a newer command of the
    ///   activity begins to wait for a carrier.
    case awaitingCarrier
    /// The record waits for Redis. Two kinds of records have this stage:
    /// - A registration whose calls have no replies yet, or whose audiences are not notified. Next: `settled`; or
    ///   `received` if the token released a held command.
    /// - A lifetime command until Redis has replied about the life. Next: `received`; or `deferring` if it must wait
    ///   for long (`deferLifetimeCommand`).
    case awaitingRedis
    /// The record is a tombstone whose calls have no replies yet, or whose audiences are not notified. Next: `settled`.
    case unregistering
    /// The record has its outcome, or needs none. Acknowledgements are outstanding, for example of its result or of its
    /// settlement in Redis. Next, after the last one: `settlingHeldStart` or `awaitingRedis` if a follow-up needs this
    /// stage (`RecordEnding.followUps`), otherwise `settled`.
    case finished
    /// The record is a held start whose result is acknowledged. Redis is removing the start. Next: `awaitingRedis` if
    /// `followUps` say so, otherwise `settled`.
    case settlingHeldStart
    /// The start is left to the next owner, because its partition is revoked. The store call that refunds its draw
    /// still names the slot. Next: `dropped` when that call is acknowledged.
    case refunding
    /// The command is being written to the deferred topic. If it is a start with a draw, the draw is also being
    /// refunded. Next:
    /// - `settled` when the deferred record and the refund are acknowledged.
    /// - `waiting`, `riding` or `finished` if Kafka did not accept the deferred record and the command can be sent
    ///   after all.
    case deferring
    /// The core of audiences decides about the command. Next:
    /// - `finished` when that core returns it with an outcome, or has fanned it out.
    /// - `dropped` when its partition is revoked while it waits in one of the cores.
    case handedOver
    /// The record's offset is settled, unless the partition's assignment has ended. The slot is freed.
    case settled
    /// The next owner of the partition reads the record again. The slot is freed.
    case dropped

    // Each record enters four or five stages, so the properties and the method below run often. Therefore they are
    // inlined, and a set of stages is a mask with one bit for each stage.

    /// Whether the record waits only for acknowledgements, and needs no decision until then.
    @inline(__always)
    var awaitsAcknowledgements: Bool {
        isOne(of: Self.finished.mask | Self.settlingHeldStart.mask | Self.refunding.mask | Self.deferring.mask)
    }

    /// Whether a record may change from this stage to `next` (R7).
    @inline(__always) func canChange(to next: RecordStage) -> Bool { next.isOne(of: nextStages) }

    @inline(__always) private func isOne(of stages: UInt16) -> Bool { stages & mask != 0 }

    @inline(__always) private var mask: UInt16 { 1 &<< UInt16(rawValue) }

    @inline(__always)
    private var nextStages: UInt16 {
        let (received, waiting, current, riding) = (
            Self.received.mask, Self.waiting.mask, Self.current.mask, Self.riding.mask
        )
        let (awaitingRedis, finished, settled) = (Self.awaitingRedis.mask, Self.finished.mask, Self.settled.mask)
        let (refunding, deferring, dropped) = (Self.refunding.mask, Self.deferring.mask, Self.dropped.mask)
        return switch self {
        case .received: waiting | riding | awaitingRedis | Self.unregistering.mask | Self.handedOver.mask | finished
        case .waiting: current | awaitingRedis | riding | finished | deferring | refunding | dropped
        case .current: waiting | riding | Self.awaitingCarrier.mask | finished | deferring | dropped
        case .riding: riding | waiting | finished | dropped
        case .awaitingCarrier: riding | finished | dropped
        case .awaitingRedis: received | deferring | settled | dropped
        case .unregistering: settled
        case .finished: Self.settlingHeldStart.mask | awaitingRedis | settled
        case .settlingHeldStart: awaitingRedis | settled
        case .handedOver: finished | dropped
        case .deferring: settled | waiting | riding | finished
        case .refunding: dropped
        case .settled, .dropped: 0
        }
    }
}
