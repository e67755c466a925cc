import APNs
import Audiences
import Delivery
import Logging
import Observability

/// One APNs pool of a lane, with what the lane knows about the pool.
final class LanePool {
    /// The pool's index in the labels of the metrics, and in the lane's list of pools.
    let metricIndex: Int
    /// The app and environment. A pool for broadcasts has the same target as the pool for device pushes.
    let target: PoolTarget
    let traffic: PoolTraffic
    /// The connections to APNs.
    let apnsPool: Pool
    /// Whether the pool has refused a push. The lane gives the pool no further push until the pool reports room
    /// (`poolHasRoom`).
    fileprivate(set) var isFull = false
    fileprivate var retryPermission = RetryPermission()
    fileprivate var probeOrder = ProbeOrder()
    private let responseHandler: LanePoolResponseHandler

    init(metricIndex: Int, pool setup: LaneSetup.PoolSetup, lane: Lane) {
        self.metricIndex = metricIndex
        target = setup.target
        traffic = setup.traffic
        responseHandler = LanePoolResponseHandler(metricIndex: metricIndex, name: setup.name, lane: lane)
        apnsPool = Pool(
            loop: lane.loop,
            configuration: setup.configuration,
            tokenSource: setup.tokenSource,
            handler: responseHandler
        )
        responseHandler.lanePool = self
    }

    /// Whether the pool's breaker is open, so that the next push is a probe.
    fileprivate var isProbing: Bool { apnsPool.breakerCause != nil }

    /// Which pushes of audiences the pool may take before starts of single commands.
    fileprivate var trafficBeforeStarts: PoolTraffic {
        probeOrder.trafficBeforeStarts(of: traffic, isProbing: isProbing)
    }

    fileprivate func permitsRetry(now: Moment) -> Bool {
        retryPermission.permitsRetry(isWithinBudget: apnsPool.retryBudget.permitsRetry, now: now)
    }

    /// Gives a push to the pool. If the pool refuses it, marks the pool as full, and the caller must tell the core that
    /// the push was not sent.
    ///
    /// - Returns: whether the pool took the push.
    fileprivate func submit(_ request: borrowing PushRequest, now: Moment) -> Bool {
        guard apnsPool.submit(request) else {
            isFull = true
            return false
        }
        retryPermission.noteSentPush(now: now)
        return true
    }
}

/// Passes each response of a pool to the core that sent the push, and the pool's events to the log. Also counts
/// responses, and notes what they say about the pool.
private final class LanePoolResponseHandler: PushHandler {
    private let metricIndex: Int
    private let name: String
    private unowned let lane: Lane
    /// `unowned` instead of `weak`, because Swift retains the lane pool for every push, and retains an object with weak
    /// references more slowly.
    unowned var lanePool: LanePool?
    private var providerStatus = ProviderStatus()

    init(metricIndex: Int, name: String, lane: Lane) {
        self.metricIndex = metricIndex
        self.name = name
        self.lane = lane
    }

    func pushResponseReceived(_ response: borrowing PushResponse) {
        let disposition = PushResult.Disposition(response.disposition)
        let concernsOnlyBroadcasts = response.mayRefuseOnlyBroadcasts && lanePool?.traffic != .broadcasts
        lane.countResponse(response, of: metricIndex)
        if response.showsAcceptedProviderToken {
            noteProvider(isRefused: false)
        } else if response.disposition == .providerRefused, !concernsOnlyBroadcasts {
            noteProvider(isRefused: true)
        }
        if response.isBroadcast {
            lanePool?.probeOrder
                .noteBroadcastResponse(
                    isAccepted: disposition == .accepted,
                    mayRefuseOnlyBroadcasts: response.mayRefuseOnlyBroadcasts
                )
        }
        lanePool?.retryPermission
            .noteResponse(disposition, concernsOnlyBroadcasts: concernsOnlyBroadcasts, now: lane.now)
        let result = PushResult(
            disposition: disposition,
            status: response.status,
            reason: response.reasonText,
            advice: response.reason.advice,
            invalidAtWallMilliseconds: response.invalidAtWallMilliseconds,
            sentAtWallMilliseconds: response.sentAtWallMilliseconds,
            responseAtWallMilliseconds: response.responseAtWallMilliseconds,
            connectionNumber: response.connectionNumber,
            isRetryPermitted: lanePool?.permitsRetry(now: lane.now) ?? false,
            isTokenRefusalTrusted: lanePool?.apnsPool.trustsTokenRefusals ?? false
        )
        if Audiences.isOwnPush(tag: response.tag) {
            lane.audiences.handlePushResponse(tag: response.tag, result, now: lane.now)
        } else {
            let record = RecordIndex(rawValue: UInt32(truncatingIfNeeded: response.tag))
            lane.delivery.handlePushResponse(record, result, now: lane.now)
        }
        lane.requestCallAtIterationEnd()
    }

    private func noteProvider(isRefused: Bool) {
        guard providerStatus.noteResponse(isRefused: isRefused, now: lane.now) else { return }
        lane.setup.metricRegistry.condition.change { [metricIndex] in
            $0.isProviderRefusedByPoolIndex[metricIndex] = isRefused
        }
    }

    func poolHasRoom(_ pool: Pool) {
        lanePool?.isFull = false
        lane.requestCallAtIterationEnd()
    }

    func poolReported(_ event: PoolEvent) {
        switch event {
        case .goAway(_, _, let reason, _): lane.countGoAway(reason, of: metricIndex)
        case .connected:
            guard let lanePool else { break }
            if lanePool.traffic.hasDevicePushes { lane.delivery.noteOpenedConnection(of: lanePool.target) }
            lane.requestCallAtIterationEnd()
        default: break
        }
        lane.writeLog(event, of: name)
    }
}

extension PushResult.Disposition {
    /// Converts the disposition of the module `APNs` to that of the cores.
    fileprivate init(_ disposition: ResponseDisposition) {
        switch disposition {
        case .accepted: self = .accepted
        case .retrySoon, .refreshProviderToken: self = .retrySoon
        case .retryLater, .providerRefused: self = .retryLater
        case .throttled: self = .throttled
        case .tokenDead: self = .tokenDead
        case .tokenSuspect: self = .tokenSuspect
        case .topicSuspect: self = .topicSuspect
        case .channelGone: self = .channelGone
        case .rejected: self = .rejected
        case .ambiguous: self = .ambiguous
        }
    }
}

extension Lane {
    /// Gives each pool its waiting pushes until the pool refuses a push: first the pushes of single commands, then
    /// those of audiences (R22). A pool probes with a start only if it has no other push, and if no update or end is
    /// retried soon (R16). Exception: a start comes before broadcasts that are refused (``ProbeOrder``).
    func performPushes() {
        for pool in pools where !pool.isFull && pool.traffic.hasDevicePushes {
            performSinglePushes(of: pool, permitsStarts: !pool.isProbing)
        }
        performAudiencePushes()
        for pool in pools where !pool.isFull && pool.isProbing && pool.traffic.hasDevicePushes {
            guard !delivery.isStateRetriedSoon(pool.target, now: now) else { continue }
            performSinglePushes(of: pool, permitsStarts: true)
            if !pool.isFull, pool.trafficBeforeStarts != pool.traffic {
                _ = performAudiencePushes(of: pool, traffic: .broadcasts)
            }
        }
    }

    /// Gives the pool the waiting pushes of single commands, until it refuses one.
    private func performSinglePushes(of pool: LanePool, permitsStarts: Bool) {
        while let record = delivery.takeNextPush(
            pool.target,
            permitsRetry: pool.permitsRetry(now: now),
            permitsStarts: permitsStarts,
            now: now
        ) {
            guard submit(record, to: pool) else {
                delivery.putBackPush(record)
                break
            }
            countBudgetDrawOrDemotion(record)
        }
    }

    /// Returns how many pushes of single commands wait for a stream of the pool.
    func waitingPushCount(of pool: LanePool) -> Int {
        pool.traffic.hasDevicePushes ? delivery.waitingPushCount(of: pool.target) : 0
    }

    /// Gives rounds and broadcasts the streams that single commands do not use. After a push was sent, the loop visits
    /// all pools again: the round's next member may be in the other environment of the app, and so in another pool.
    private func performAudiencePushes() {
        var hasSent = true
        while hasSent {
            hasSent = false
            for pool in pools where !pool.isFull {
                if performAudiencePushes(of: pool, traffic: pool.trafficBeforeStarts) { hasSent = true }
            }
        }
    }

    /// Gives the pool waiting pushes of audiences, until the pool refuses one or the audiences have used their part of
    /// its streams (`pushesInFlightMax`). Returns whether the pool took any.
    private func performAudiencePushes(of pool: LanePool, traffic: PoolTraffic) -> Bool {
        let streamCount = pool.apnsPool.inFlightPushCount + pool.apnsPool.freeStreamCount
        let pushesInFlightMax = Audiences.pushesInFlightMax(
            streamCount: streamCount,
            // While a pool probes, audiences may send the probe although starts wait. So waiting commands do not count
            // then.
            areSingleCommandsWaiting: !pool.isProbing && waitingPushCount(of: pool) > 0
        )
        var hasSent = false
        while let push = audiences.takeNextPush(
            pool.target,
            traffic: traffic,
            permitsRetry: pool.permitsRetry(now: now),
            pushesInFlightMax: pushesInFlightMax,
            isProbing: pool.isProbing,
            now: now
        ) {
            guard submit(push, to: pool) else {
                audiences.putBackPush(push)
                break
            }
            hasSent = true
        }
        return hasSent
    }

    private func submit(_ push: AudiencePush, to pool: LanePool) -> Bool {
        pool.submit(
            PushRequest(
                tag: push.tag,
                address: push.address,
                isBroadcast: push.isBroadcast,
                priority: push.priority,
                expirationSeconds: push.expirationSeconds,
                identifier: push.apnsId,
                body: push.body,
                isRetry: push.isRetry
            ),
            now: now
        )
    }

    private func submit(_ record: RecordIndex, to pool: LanePool) -> Bool {
        let view = delivery.view(record)
        return pool.submit(
            PushRequest(
                tag: UInt64(record.rawValue),
                address: view.token,
                priority: view.priority,
                expirationSeconds: view.sentExpirationSeconds,
                identifier: view.apnsId,
                body: view.body,
                avoidedConnectionNumber: view.avoidedConnectionNumber,
                isRetry: view.isRetry
            ),
            now: now
        )
    }
}
