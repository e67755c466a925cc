import Delivery
import LiveActivity
import Testbed

/// iOS lets an activity live for eight hours. After this time only the activity's end is sent.
extension Simulation {
    static let ageMillisecondsMax: Int64 = 8 * 3_600_000
    /// Redis keeps the eight hours in whole seconds, rounded up to the end of the last second.
    private static let roundingMilliseconds: Int64 = 999
    /// The maximum time between an activity's first and last command. Redis keeps the activity's value for longer, so
    /// no value expires in a simulation.
    static let longLifeMilliseconds: Int64 = 16 * 3_600_000
    /// The longest time from a push's admission to its arrival. The push may wait for a stream and for retries while
    /// all workers stop.
    private static let arrivalDelayMillisecondsMax: Int64 = 3_600_000

    /// Chooses the time until the next command: usually some seconds, sometimes hours. Sometimes the next command comes
    /// when the activity is about eight hours old.
    func chooseLongGapMilliseconds(bornAtMilliseconds: Int64, atMilliseconds time: Int64) -> Int64 {
        let ageLimitMilliseconds = bornAtMilliseconds + Self.ageMillisecondsMax
        let endMilliseconds = bornAtMilliseconds + Self.longLifeMilliseconds
        let gapMilliseconds =
            switch random.number(0...9) {
            case 0...5: Int64(random.number(0...parameters.commandGapMillisecondsMax))
            case 6...7 where time < ageLimitMilliseconds - 10_000:
                ageLimitMilliseconds - time + Int64(random.number(-10_000...10_000))
            default: Int64(random.number(0...5 * 3_600_000))
            }
        return min(gapMilliseconds, max(0, endMilliseconds - time))
    }

    /// Records Redis' verdict on a call, and checks that Redis respects the eight hours. For the beginning of these
    /// hours see `lifeBeganAtMilliseconds`.
    func noteActivityAge(
        _ call: StoreCall<[UInt8]>,
        _ view: RecordView,
        _ reply: StoreReply<[UInt8]>,
        of activity: String
    ) {
        let concernsActivity =
            call.ticket.purpose == .admit || call.ticket.purpose == .registerToken && view.attributesType.isEmpty
        guard concernsActivity, !wasRedisWiped else { return }
        if view.isStart, call.ticket.purpose == .admit {
            if reply.verdict == .send, !activitiesWithPermittedStart.contains(activity) {
                lifeBeganAtMilliseconds[activity] = now
            }
            if reply.verdict == .send {
                activitiesWithPermittedStart.insert(activity)
                knownActivities.insert(activity)
            }
            return
        }
        // A reply without a token does not begin the eight hours.
        let mayHaveToken =
            reply.verdict == .registered || reply.verdict == .send || reply.verdict == .wait
            || call.admission?.registration != nil && reply.verdict != .departures
        if mayHaveToken, lifeBeganAtMilliseconds[activity] == nil { lifeBeganAtMilliseconds[activity] = now }
        let bornAtMilliseconds = lifeBeganAtMilliseconds[activity] ?? now
        let isUpdate = call.ticket.purpose == .admit && view.event == .update
        checkUnknownActivity(call, view, reply, of: activity)
        if isUpdate, reply.verdict == .send,
            now - bornAtMilliseconds > Self.ageMillisecondsMax + Self.roundingMilliseconds
        {
            violations.append("\(activity): \(view.version) admitted \(now - bornAtMilliseconds) ms after it was born")
        }
        if isUpdate, reply.verdict == .activityOver, now - bornAtMilliseconds <= Self.ageMillisecondsMax {
            violations.append(
                "\(activity): \(view.version) is too old \(now - bornAtMilliseconds) ms after it was born"
            )
        }
        if reply.verdict == .activityOver {
            activitiesWithOldUpdate.insert(activity)
            if view.event == .end { violations.append("\(activity): its end is too old") }
        }
    }

    /// Checks a command that is older than an activity can live (`isTooOld`): Redis may accept it only if Redis knows a
    /// version of its activity.
    private func checkUnknownActivity(
        _ call: StoreCall<[UInt8]>,
        _ view: RecordView,
        _ reply: StoreReply<[UInt8]>,
        of activity: String
    ) {
        guard let admission = call.admission else { return }
        if reply.verdict == .send || reply.verdict == .noToken || reply.verdict == .wait {
            if admission.isTooOld, !knownActivities.contains(activity) {
                violations.append("\(activity): \(view.version) is old and unknown: \(reply.verdict)")
            }
            knownActivities.insert(activity)
        }
    }

    /// Checks that a pushed start or alert is not older than its worker's policy allows.
    func checkStartAndAlertAge(_ view: RecordView, by worker: SimulatedWorker) {
        let seconds = worker.moment(now).wallMilliseconds / 1_000
        if view.isStart, seconds - view.version.timestamp > parameters.policy.expiration.startSeconds {
            violations.append("\(identifier(view)): a start of \(seconds - view.version.timestamp) s is sent")
        }
        let activity = String(decoding: view.activity, as: UTF8.self)
        guard let version = versions["\(activity)#\(alertSequence(of: view))"] else { return }
        if seconds - version.timestamp > parameters.policy.expiration.alertSeconds {
            violations.append("\(identifier(view)): rings an alert of \(seconds - version.timestamp) s")
        }
    }

    /// Whether a command's alert may have become too old before it was sent. A worker whose clock is ahead takes the
    /// alert for older than it is.
    func mayAlertBeTooOld(_ command: String) -> Bool {
        let mayWaitLong = !parameters.agesSeconds.isEmpty || parameters.livesPerActivityMax > 0
        guard mayWaitLong, let version = versions[command] else { return false }
        return (now + Int64(parameters.clockErrorMillisecondsMax)) / 1_000 - version.timestamp
            > parameters.policy.expiration.alertSeconds
    }

    /// Checks that no update arrives at the phone long after the activity's eight hours.
    func checkUpdateAge(_ view: RecordView, of activity: String) {
        guard parameters.hasLongLives, view.event == .update,
            let bornAtMilliseconds = lifeBeganAtMilliseconds[activity]
        else { return }
        if now - bornAtMilliseconds > Self.ageMillisecondsMax + Self.arrivalDelayMillisecondsMax {
            violations.append("\(activity): \(view.version) arrives \(now - bornAtMilliseconds) ms after it was born")
        }
    }
}
