import APNs
import Delivery
import Logging

/// One APNs pool of a lane, and who takes its answers.
final class LanePool {
    /// As the metrics count it.
    let number: Int
    let index: PoolIndex
    let pool: Pool
    /// The pool refused a push; nothing is offered to it until it says that it has room.
    fileprivate(set) var isFull = false
    fileprivate var retryPermission = RetryPermission()
    private let answers: LanePoolAnswers

    init(number: Int, pool plan: LanePlan.Pool, lane: Lane) {
        self.number = number
        index = plan.index
        answers = LanePoolAnswers(number: number, name: plan.name, lane: lane)
        pool = Pool(loop: lane.loop, configuration: plan.configuration, tokens: plan.tokens, handler: answers)
        answers.owner = self
    }

    fileprivate func permitsRetry(now: Moment) -> Bool {
        retryPermission.permitsRetry(isWithinBudget: pool.retryBudget.permitsRetry, now: now)
    }
}

/// Takes a pool's answers to the core.
private final class LanePoolAnswers: PushHandler {
    private let number: Int
    private let name: String
    private unowned let lane: Lane
    weak var owner: LanePool?

    init(number: Int, name: String, lane: Lane) {
        self.number = number
        self.name = name
        self.lane = lane
    }

    func pushAnswered(_ answer: borrowing PushAnswer) {
        let disposition = disposition(of: answer)
        lane.count(answer, of: number)
        owner?.retryPermission.answered(disposition)
        lane.delivery.answered(
            UInt32(truncatingIfNeeded: answer.tag),
            PushResult(
                disposition: disposition,
                status: answer.status,
                reason: answer.reasonText,
                invalidAtMilliseconds: answer.timestampMilliseconds,
                sentMilliseconds: answer.sentAtMilliseconds,
                answeredMilliseconds: answer.answeredAtMilliseconds,
                connection: answer.connection,
                retryPermitted: owner?.permitsRetry(now: lane.now) ?? false
            ),
            now: lane.now
        )
        lane.requestTurnEnd()
    }

    func poolHasRoom(_ pool: Pool) {
        owner?.isFull = false
        lane.requestTurnEnd()
    }

    func poolNotice(_ notice: PoolNotice) {
        if case .goAway(_, _, let reason, _) = notice { lane.countGoAway(reason, of: number) }
        lane.note(notice, of: name)
    }

    private func disposition(of answer: borrowing PushAnswer) -> PushResult.Disposition {
        switch answer.disposition {
        case .accepted: .accepted
        case .retryNow, .refreshProviderToken: .retryNow
        // The other 429 is about the provider token.
        case .retryLater where answer.status == 429 && answer.reason != .tooManyProviderTokenUpdates: .limited
        case .retryLater: .retryLater
        case .tokenDead: .tokenDead
        case .tokenSuspect:
            // A token that is not for this topic is usually a wrong configuration; so is a burst of bad ones.
            answer.reason == .badDeviceToken && owner?.pool.openBreaker == nil ? .tokenDead : .rejected
        case .rejected: .rejected
        case .ambiguous: .ambiguous
        }
    }
}

extension Lane {
    /// Hands pushes to every pool for as long as it has streams.
    func performPushes() {
        for pool in pools where !pool.isFull {
            while let record = delivery.nextPush(pool.index, permitsRetry: pool.permitsRetry(now: now), now: now) {
                guard submit(record, to: pool) else {
                    delivery.pushReturned(record)
                    pool.isFull = true
                    break
                }
                pool.retryPermission.sent(now: now)
                countSent(record)
            }
        }
    }

    private func submit(_ record: UInt32, to pool: LanePool) -> Bool {
        let view = delivery.view(record)
        return pool.pool.submit(
            PushRequest(
                tag: UInt64(record),
                deviceToken: view.token,
                priority: view.priority,
                expiration: view.expiration,
                identifier: view.apnsIdentifier,
                body: view.body,
                avoidedConnection: view.avoidedConnection,
                isRetry: view.isRetry
            )
        )
    }
}
