import Delivery
import LiveActivity
import Testbed

/// The connections of the workers' pools, their streams, and the faults of both.
extension Simulation {
    /// Sends the core's pushes while a connection has a free stream.
    func performPushes(_ worker: SimulatedWorker, _ parameters: SimulationParameters.Connections) {
        let moment = worker.moment(now)
        openConnections(worker, parameters)
        while let index = connectionWithRoom(worker, avoiding: nil) {
            let isBudgetSpent = now < faultsEndMilliseconds && random.chance(parameters.spentRetryBudgetPerMille)
            let permitsRetry = worker.retryPermission.permitsRetry(isWithinBudget: !isBudgetSpent, now: moment)
            // In a third of the runs, starts are sent only if no other push is ready, as by a pool that probes.
            let prefersStates = parameters.connectionCount == 2
            let state =
                prefersStates
                ? worker.delivery.takeNextPush(Self.pool, permitsRetry: permitsRetry, permitsStarts: false, now: moment)
                : nil
            guard let record = state ?? worker.delivery.takeNextPush(Self.pool, permitsRetry: permitsRetry, now: moment)
            else { return }
            if now < faultsEndMilliseconds, random.chance(parameters.returnedPushPerMille) {
                worker.delivery.putBackPush(record)
                return
            }
            let view = worker.delivery.view(record)
            checkRepeatedPush(record, view, by: worker)
            worker.retryPermission.noteSentPush(now: moment)
            let chosenIndex = connectionWithRoom(worker, avoiding: view.avoidedConnectionNumber) ?? index
            let due = now + Int64(random.number(0...self.parameters.latencyMillisecondsMax))
            let number = worker.connections[chosenIndex].number
            worker.pushes.append(
                .init(dueMilliseconds: due, record: record, fate: chooseFate(parameters), connection: number)
            )
            noteSentPush(view, by: worker)
        }
    }

    private func openConnections(_ worker: SimulatedWorker, _ parameters: SimulationParameters.Connections) {
        worker.connections.removeAll { connection in
            connection.isDraining && !worker.pushes.contains { $0.connection == connection.number }
        }
        while worker.connections.count(where: { !$0.isDraining }) < parameters.connectionCount {
            worker.connectionCount += 1
            let waitMilliseconds = now < faultsEndMilliseconds ? Int64(random.number(0...2_000)) : 0
            worker.connections.append(
                SimulatedConnection(
                    number: worker.connectionCount,
                    streamsMax: self.parameters.streamsMax,
                    opensAtMilliseconds: now + (worker.connectionCount == 1 ? 0 : waitMilliseconds)
                )
            )
        }
    }

    private func connectionWithRoom(_ worker: SimulatedWorker, avoiding avoidedNumber: UInt32?) -> Int? {
        worker.connections.firstIndex { connection in
            guard connection.number != avoidedNumber, !connection.isDraining, connection.opensAtMilliseconds <= now
            else {
                return false
            }
            let streamsMax = connection.isCold ? 1 : connection.streamsMax
            return worker.pushes.count { $0.connection == connection.number } < streamsMax
        }
    }

    private func chooseFate(_ parameters: SimulationParameters.Connections) -> SimulatedWorker.PushFate {
        guard now < faultsEndMilliseconds else { return .processed }
        if random.chance(parameters.refusedStreamPerMille) { return .refusedStream }
        if random.chance(parameters.resetStreamPerMille) {
            return random.chance(500) ? .lostBeforeProcessing : .lostAfterProcessing
        }
        if random.chance(parameters.lostResponsePerMille) { return .lostAfterProcessing }
        if random.chance(parameters.unknownReasonPerMille) { return .unknownReason }
        if random.chance(parameters.refusedProviderTokenPerMille) {
            return random.chance(300) ? .everyTokenRefused : .providerTokenRefused
        }
        return chooseFate()
    }

    // MARK: - Faults of connections

    func injectConnectionFaults(_ parameters: SimulationParameters.Connections) {
        for case let worker? in workers {
            if random.chance(parameters.connectionLossPerMille) { loseConnection(worker) }
            if random.chance(parameters.goAwayPerMille) { sendGoAway(worker) }
            if random.chance(parameters.streamLimitChangePerMille) { changeStreamLimit(worker) }
        }
    }

    /// Loses a connection and its pushes. A push that was not sent completely was not processed by APNs, and the worker
    /// knows this. For all others the worker cannot know it, and chance decides.
    private func loseConnection(_ worker: SimulatedWorker) {
        guard let connection = worker.connections.randomElement(using: &random) else { return }
        let lostPushes = takePushes(worker) { $0.connection == connection.number }
        worker.connections.removeAll { $0.number == connection.number }
        trace?("\(now % 1_000_000) connection \(connection.number) is lost with \(lostPushes.count) pushes")
        for push in lostPushes {
            let wasSentCompletely = !random.chance(200)
            if !wasSentCompletely {
                respond(to: push, worker, .retrySoon, 0)
                continue
            }
            if random.chance(500) { _ = deliverPush(worker.delivery.view(push.record)) }
            respond(to: push, worker, .ambiguous, 0)
        }
    }

    /// APNs sends GOAWAY, which names the last stream that it processes. The worker sends the pushes of later streams
    /// again.
    private func sendGoAway(_ worker: SimulatedWorker) {
        guard
            let index = worker.connections.indices.filter({ !worker.connections[$0].isDraining })
                .randomElement(using: &random)
        else { return }
        let number = worker.connections[index].number
        worker.connections[index].isDraining = true
        let pushCount = worker.pushes.count { $0.connection == number }
        let processedCount = random.number(0...pushCount)
        var position = 0
        let refusedPushes = takePushes(worker) { push in
            guard push.connection == number else { return false }
            position += 1
            return position > processedCount
        }
        trace?("\(now % 1_000_000) GOAWAY on \(number): \(processedCount) of \(pushCount) are kept")
        for push in refusedPushes { respond(to: push, worker, .retrySoon, 0) }
    }

    /// Changes MAX_CONCURRENT_STREAMS of a connection to one, or back to its first value.
    private func changeStreamLimit(_ worker: SimulatedWorker) {
        guard let index = Array(worker.connections.indices).randomElement(using: &random) else { return }
        worker.connections[index].streamsMax = worker.connections[index].streamsMax == 1 ? parameters.streamsMax : 1
    }

    private func takePushes(
        _ worker: SimulatedWorker,
        where isTaken: (SimulatedWorker.Push) -> Bool
    ) -> [SimulatedWorker.Push] {
        var (taken, rest): ([SimulatedWorker.Push], [SimulatedWorker.Push]) = ([], [])
        for push in worker.pushes { if isTaken(push) { taken.append(push) } else { rest.append(push) } }
        worker.pushes = rest
        return taken
    }

    // MARK: - The invariants

    /// Checks a push that is sent again: its last response allows this, its timestamp stays the same, and it avoids the
    /// connection of its last attempt.
    private func checkRepeatedPush(_ record: RecordIndex, _ view: RecordView, by worker: SimulatedWorker) {
        // The slot has a new push now, so the response to its last push is removed.
        let last = worker.lastResponses.removeValue(forKey: record)
        // After a deferral the command has another slot, so the response to its last attempt is not known.
        guard view.isRetry, view.deferral.count == 0 else { return }
        let name = identifier(view)
        guard let last, last.offset == view.sourceOffset, last.partition == view.sourcePartition,
            last.version == view.version
        else {
            violations.append("\(name): sent again, although no response to it was noted")
            return
        }
        switch last.disposition {
        case .retrySoon, .retryLater, .throttled, .tokenSuspect, .topicSuspect, .tokenDead: break
        case .ambiguous:
            if view.isStart { violations.append("\(name): a start was sent again after its response was lost") }
        case .accepted, .rejected, .channelGone:
            violations.append("\(name): sent again after \(last.disposition)")
        }
        if view.avoidedConnectionNumber != last.connection {
            violations.append("\(name): avoids \(view.avoidedConnectionNumber ?? 0), not \(last.connection)")
        }
        if view.sentTimestamp != last.sentTimestamp, !wasRedisWiped {
            violations.append("\(name): sent again with timestamp \(view.sentTimestamp), not \(last.sentTimestamp)")
        }
    }

    /// Records the response that the core is about to get.
    func noteResponse(_ push: SimulatedWorker.Push, _ disposition: PushResult.Disposition, _ worker: SimulatedWorker) {
        guard let connection = push.connection else { return }
        let view = worker.delivery.view(push.record)
        worker.lastResponses[push.record] = .init(
            offset: view.sourceOffset,
            partition: view.sourcePartition,
            version: view.version,
            sentTimestamp: view.sentTimestamp,
            disposition: disposition,
            connection: connection
        )
        worker.retryPermission.noteResponse(disposition, now: worker.moment(now))
        if disposition == .accepted,
            let index = worker.connections.firstIndex(where: { $0.number == connection })
        {
            worker.connections[index].isCold = false
        }
    }

    /// Checks that each record of a command has at most one outcome, and that APNs accepts the command at most once.
    /// Checks only runs with connections that lose no worker, partition, acknowledgement, reply of Redis or data of
    /// Redis. After such a loss, two records may send the same version.
    func checkOutcomes() {
        let isUndisturbed =
            parameters.crashPerMille == 0 && parameters.rebalancePerMille == 0
            && parameters.produceFailurePerMille == 0
            && parameters.redisLossPerMille == 0
            && !parameters.wipesRedis
        guard parameters.connections != nil, isUndisturbed else { return }
        for (command, outcomes) in results.sorted(by: { $0.key < $1.key }) {
            // A held command may have more outcomes than records: each registration releases the command again until it
            // is settled.
            if !outcomes.contains(.held), outcomes.count > recordCounts[command] ?? 0 {
                violations.append("\(command): \(outcomes.map(\.name)) of \(recordCounts[command] ?? 0) records")
            }
            if outcomes.count(where: { $0 == .accepted }) > 1 {
                violations.append("\(command): accepted twice")
            }
        }
    }
}
