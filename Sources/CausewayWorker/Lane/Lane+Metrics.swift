import APNs
import ActivityStore
import Audiences
import Delivery
import LiveActivity
import Observability
import Reactor

/// Counts and publishes a lane's metrics.
///
/// The lane counts its own events where they happen. The counts of its cores and pools, and all gauges, are read when
/// the metrics are published, four times a second.
extension Lane {
    // MARK: - Counting events

    /// Counts an outgoing record that Kafka has acknowledged, so that the numbers equal the records on the topic.
    func countAcknowledged(_ outgoingRecord: OutgoingRecord) {
        let view = delivery.view(outgoingRecord.record)
        // A record without a configured app counts at the index after the last app.
        let appIndex = view.configuredAppIndex ?? setup.bundleIds.count
        switch outgoingRecord.kind {
        case .result:
            metrics.add(.outcomes, appIndex, Int(view.outcome.rawValue))
            if view.outcome == .accepted { observeLatencies(of: view, appIndex: appIndex) }
        case .invalidation: metrics.add(.invalidations, appIndex)
        case .deadLetter: metrics.add(.deadLetters, appIndex)
        case .deferral: metrics.add(.deferred, appIndex)
        case .traceOnly: preconditionFailure("a trace is not written to Kafka")
        }
    }

    private func observeLatencies(of view: RecordView, appIndex: Int) {
        if view.recordTimestampMilliseconds >= 0 {
            observeLatency(.queue, from: view.recordTimestampMilliseconds, to: view.receivedAtWallMilliseconds)
            if let responseAtWallMilliseconds = view.responseAtWallMilliseconds {
                let freshnessMilliseconds = responseAtWallMilliseconds - view.recordTimestampMilliseconds
                metrics.observe(
                    .freshness,
                    appIndex,
                    microseconds: Self.clampedMicroseconds(freshnessMilliseconds)
                )
            }
        }
        observeLatency(.admit, from: view.receivedAtWallMilliseconds, to: view.admittedAtWallMilliseconds)
        observeLatency(.stream, from: view.admittedAtWallMilliseconds, to: view.sentAtWallMilliseconds)
        observeLatency(.apns, from: view.sentAtWallMilliseconds, to: view.responseAtWallMilliseconds)
        observeLatency(.settle, from: view.responseAtWallMilliseconds, to: loop.wallMilliseconds)
    }

    /// Adds one part of a command's latency to the metrics. Does nothing if one of the two times is nil: that step has
    /// not happened. If a response comes before its push was sent completely, the time between them counts as 0.
    private func observeLatency(
        _ part: LatencyPart,
        from beganAtWallMilliseconds: Int64?,
        to endWallMilliseconds: Int64?
    ) {
        guard let beganAtWallMilliseconds, let endWallMilliseconds else { return }
        metrics.observe(
            .latency,
            Int(part.rawValue),
            microseconds: Self.clampedMicroseconds(endWallMilliseconds - beganAtWallMilliseconds)
        )
    }

    /// Converts a duration to microseconds, limited to the range from 0 to one year. A producer chooses a record's
    /// timestamp, so a wrong clock could otherwise cause a negative duration or an overflow.
    static func clampedMicroseconds(_ milliseconds: Int64) -> Int64 {
        min(max(0, milliseconds), 31_536_000_000) * 1_000
    }

    /// Counts a push of priority 10 as a draw from its activity's budget, and a demoted push as a demotion. Redis draws
    /// from the budget once for each version, so only the first attempt counts.
    func countBudgetDrawOrDemotion(_ record: RecordIndex) {
        let view = delivery.view(record)
        guard !view.isRetry else { return }
        let policyIndex = setup.metricRegistry.labels.policyIndex(view.policyIndex)
        if view.isDemoted {
            metrics.add(.budgetDemotions, view.appIndex, policyIndex)
        } else if view.priority == PushPriority.high {
            metrics.add(.budgetDraws, view.appIndex, policyIndex)
        }
    }

    func countResponse(_ response: borrowing PushResponse, of poolIndex: Int) {
        metrics.add(
            .pushes,
            poolIndex,
            setup.metricRegistry.labels.responses.index(status: response.status, reason: Int(response.reason.rawValue))
        )
        guard response.completion == .responded, let sentAtWallMilliseconds = response.sentAtWallMilliseconds else {
            return
        }
        metrics.observe(
            .apnsRoundTrip,
            Int(pools[poolIndex].target.environment.rawValue),
            microseconds: Self.clampedMicroseconds(response.responseAtWallMilliseconds - sentAtWallMilliseconds)
        )
    }

    func countGoAway(_ reason: Reason, of poolIndex: Int) {
        metrics.add(.apnsGoaway, poolIndex, setup.metricRegistry.labels.responses.reasonIndex(Int(reason.rawValue)))
    }

    // MARK: - Publishing

    func publishMetricsIfDue() {
        if metrics.isPublicationDue(nowMilliseconds: loop.nowMilliseconds) { publishMetrics() }
    }

    func publishMetrics() {
        setPoolGauges()
        setAppMetrics()
        setAudienceMetrics()
        setRecordMetrics()
        metrics.set(.redisReady, to: activityStore.isReady ? 1 : 0)
        metrics.set(.redisServersUnavailable, to: Int64(activityStore.unavailableServerCount))
        metrics.set(.readAheadActive, to: delivery.isReadingAhead ? 1 : 0)
        metrics.setBusyTime(
            microseconds: loop.busyMicroseconds,
            nowMilliseconds: loop.nowMilliseconds,
            ratioMetric: .laneBusyRatio,
            secondsMetric: .laneBusy
        )
        readPartitionMetrics()
        partitionReadings.withUnsafeBufferPointer {
            metrics.publish(partitions: $0, nowMilliseconds: loop.nowMilliseconds)
        }
    }

    private func setPoolGauges() {
        for index in setup.metricRegistry.labels.signingKeys.indices {
            metrics.set(.providerTokenAge, index, to: 0)
        }
        for pool in pools {
            let gauges = pool.apnsPool.gauges
            let poolIndex = pool.metricIndex
            setConnectionCount(.ready, of: poolIndex, to: gauges.readyConnectionCount)
            setConnectionCount(.opening, of: poolIndex, to: gauges.openingConnectionCount)
            setConnectionCount(.draining, of: poolIndex, to: gauges.drainingConnectionCount)
            setConnectionCount(.awaited, of: poolIndex, to: gauges.awaitsConnectionBudget ? 1 : 0)
            metrics.set(.apnsStreamsMax, poolIndex, to: Int64(gauges.streamsMax))
            metrics.set(.pushesInFlight, poolIndex, to: Int64(gauges.inFlightPushCount))
            let waitingBroadcastCount = audiences.waitingBroadcastCount(of: pool.target, traffic: pool.traffic)
            metrics.set(.pushesWaiting, poolIndex, to: Int64(waitingPushCount(of: pool) + waitingBroadcastCount))
            metrics.set(.breakerOpen, poolIndex, to: pool.apnsPool.breakerCause == nil ? 0 : 1)
            setProviderTokenAge(of: pool, gauges)
        }
    }

    private func setConnectionCount(_ phase: ConnectionPhase, of poolIndex: Int, to count: Int) {
        metrics.set(.apnsConnections, poolIndex, Int(phase.rawValue), to: Int64(count))
    }

    private func setProviderTokenAge(of pool: LanePool, _ gauges: PoolGauges) {
        let wallSeconds = loop.wallMilliseconds / 1_000
        let poolIndex = pool.metricIndex
        let hasUnfinishedPushes = gauges.inFlightPushCount > 0 || waitingPushCount(of: pool) > 0
        providerTokenUses[poolIndex]
            .notePushes(
                submittedPushCount: pool.apnsPool.statistics.submittedPushCount,
                hasUnfinishedPushes: hasUnfinishedPushes,
                issuedAtSeconds: gauges.providerTokenIssuedAtSeconds,
                nowMilliseconds: loop.nowMilliseconds
            )
        guard providerTokenUses[poolIndex].isInUse(nowMilliseconds: loop.nowMilliseconds) else { return }
        if hasUnfinishedPushes, gauges.providerTokenIssuedAtSeconds == nil,
            let token = setup.pools[poolIndex].tokenSource.provideToken(unixSeconds: wallSeconds)
        {
            // While the pool has no connection, for example because APNs is down, publish the age of the token that the
            // next connection will use.
            providerTokenUses[poolIndex].issuedAtSeconds = token.issuedAtSeconds
        }
        guard let issuedAtSeconds = providerTokenUses[poolIndex].issuedAtSeconds else { return }
        let ageMilliseconds = loop.wallMilliseconds - issuedAtSeconds * 1_000
        metrics.raise(.providerTokenAge, setup.pools[poolIndex].signingKeyIndex, to: ageMilliseconds)
    }

    private func setAppMetrics() {
        for appIndex in setup.bundleIds.indices {
            let counters = delivery.counters(of: appIndex)
            metrics.set(.commandsReplaced, appIndex, to: Int64(clamping: counters.replacedCommandCount))
            metrics.set(.bodiesWithDroppedFields, appIndex, to: Int64(clamping: counters.bodyWithDroppedFieldsCount))
            metrics.set(.startBudgetWaits, appIndex, to: Int64(clamping: counters.startBudgetWaitCount))
            metrics.set(.undecodable, appIndex, to: Int64(clamping: counters.undecodableCommandCount))
            countSupersededWithoutResult(counters, of: appIndex)
            var retryCount: UInt64 = 0
            var lowestBudgetRatio = 1.0
            for pool in pools where Int(pool.target.appIndex) == appIndex {
                retryCount &+= pool.apnsPool.statistics.retryCount
                lowestBudgetRatio = min(lowestBudgetRatio, pool.apnsPool.retryBudget.remainingRatio)
            }
            metrics.set(.pushRetries, appIndex, to: Int64(clamping: retryCount))
            metrics.set(.retryBudgetRatio, appIndex, to: Int64(lowestBudgetRatio * 1_000_000))
        }
    }

    /// Counts the superseded commands that got no result and that are new since the last call. (A command with a result
    /// counts when Kafka acknowledges the result.)
    private func countSupersededWithoutResult(_ counters: AppCounters, of appIndex: Int) {
        let unpublishedCount = counters.supersededWithoutResultCount &- publishedSupersededCounts[appIndex]
        publishedSupersededCounts[appIndex] = counters.supersededWithoutResultCount
        metrics.add(.outcomes, appIndex, Int(Outcome.superseded.rawValue), by: Int64(clamping: unpublishedCount))
    }

    private func setRecordMetrics() {
        // Do not count pushes of audiences: they are sent for members, not for the records that are counted here.
        let inFlightPushCount = pools.reduce(0) {
            $0 + $1.apnsPool.inFlightPushCount
                - audiences.inFlightPushCount(of: $1.target, traffic: $1.traffic)
        }
        let waitingPushCount = pools.reduce(0) { $0 + self.waitingPushCount(of: $1) }
        let inProgressRecordCount = delivery.inProgressRecordCount
        let recordsWithKnownWaitCount =
            inFlightPushCount + waitingPushCount + delivery.recordsAwaitingStoreCount
            + delivery.unacknowledgedRecordCount
        metrics.set(.recordsInProgress, to: Int64(inProgressRecordCount))
        metrics.set(.alertsCarried, to: Int64(clamping: delivery.carriedAlertCount))
        setRecordsWaiting(.redis, to: delivery.recordsAwaitingStoreCount)
        setRecordsWaiting(.stream, to: waitingPushCount)
        setRecordsWaiting(.apns, to: inFlightPushCount)
        setRecordsWaiting(.result, to: delivery.unacknowledgedRecordCount)
        // Nearly all other records in progress wait until they may be sent, or for an older command of their activity.
        setRecordsWaiting(.pace, to: max(0, inProgressRecordCount - recordsWithKnownWaitCount))
    }

    private func setRecordsWaiting(_ wait: RecordWait, to count: Int) {
        metrics.set(.recordsWaiting, Int(wait.rawValue), to: Int64(count))
    }

    private func readPartitionMetrics() {
        partitionReadings.removeAll(keepingCapacity: true)
        for entry in partitions.entries {
            let unsettledAgeMilliseconds = oldestUnsettledSinceMilliseconds(of: entry)
                .map { max(0, loop.nowMilliseconds - $0) }
            partitionReadings.append(
                PartitionReading(
                    topicIndex: entry.topic,
                    partition: entry.partition,
                    oldestUnsettledAgeMilliseconds: unsettledAgeMilliseconds ?? 0,
                    committableOffset: findCommittableOffset(of: entry) ?? -1
                )
            )
        }
    }
}
