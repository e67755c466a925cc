import ActivityStore
import Delivery
import LiveActivity
import Testbed

@testable import Audiences

/// Performs the core's actions, as the shells do in a worker.
extension Simulation {
    func performActions(_ worker: SimulatedWorker) {
        let moment = worker.moment(nowMilliseconds)
        while nowMilliseconds >= storeUnavailableUntilMilliseconds,
            let call = worker.core.withNextStoreCall(now: moment, { $0.map { Array($0) } })
        {
            worker.core.removeNextStoreCall()
            let earliestMilliseconds = worker.storeCalls.last?.dueMilliseconds ?? nowMilliseconds
            worker.storeCalls.append(
                (
                    max(
                        earliestMilliseconds,
                        nowMilliseconds + Int64(random.number(0...parameters.latencyMillisecondsMax))
                    ), call
                )
            )
        }
        while let tag = worker.core.withNextActivityStoreCall(now: moment, { $0.tag }) {
            worker.core.removeNextActivityStoreCall()
            worker.activityStoreCalls.append(
                (nowMilliseconds + Int64(random.number(0...parameters.latencyMillisecondsMax)), tag)
            )
        }
        performPushes(worker)
        while let outgoingRecord = worker.core.nextOutgoingRecord(now: moment) {
            let simulatedRecord = makeSimulatedRecord(of: outgoingRecord, worker)
            worker.core.removeNextOutgoingRecord(outgoingRecord)
            let isFailing =
                nowMilliseconds < faultsUntilMilliseconds && random.chance(parameters.produceFailurePerMille)
            worker.outgoingRecords.append(
                .init(
                    dueMilliseconds: nowMilliseconds + Int64(random.number(0...parameters.latencyMillisecondsMax)),
                    outgoingRecord: outgoingRecord,
                    isAcknowledged: !isFailing,
                    simulatedRecord: !isFailing || random.chance(500) ? simulatedRecord : nil
                )
            )
        }
    }

    /// What the pools of an environment send. In some runs, broadcasts have a pool of their own.
    private var poolTraffics: [PoolTraffic] {
        parameters.memberCount % 5 == 4 ? [.devicePushes, .broadcasts] : [.everything]
    }

    private func performPushes(_ worker: SimulatedWorker) {
        var foundPush = true
        while foundPush {
            foundPush = false
            for environment in APNsEnvironment.allCases
            where nowMilliseconds >= hostsUnavailableUntilMilliseconds[Int(environment.rawValue)] {
                for traffic in poolTraffics {
                    if performPushes(worker, environment, traffic) { foundPush = true }
                }
            }
        }
    }

    /// Sends what the core has for one pool.
    ///
    /// - Returns: whether there was a push.
    private func performPushes(_ worker: SimulatedWorker, _ environment: APNsEnvironment, _ traffic: PoolTraffic)
        -> Bool
    {
        var foundPush = false
        while let push = worker.core.takeNextPush(
            PoolTarget(appIndex: 0, environment: environment),
            traffic: traffic,
            permitsRetry: true,
            pushesInFlightMax: parameters.streamsMax,
            now: worker.moment(nowMilliseconds)
        ) {
            if random.chance(30) {
                worker.core.putBackPush(push)
                break
            }
            foundPush = true
            checkBroadcastSpacing(push, environment, worker)
            let token = String(decoding: push.address, as: UTF8.self)
            checkMemberHasNotLeft(token)
            worker.pushes.append(
                .init(
                    dueMilliseconds: nowMilliseconds + Int64(random.number(0...parameters.latencyMillisecondsMax)),
                    audiencePush: push,
                    token: token,
                    body: Array(push.body),
                    fate: chooseFate(of: token),
                    environment: environment
                )
            )
        }
        return foundPush
    }

    private func chooseFate(of token: String) -> SimulatedWorker.PushFate {
        guard nowMilliseconds < faultsUntilMilliseconds else { return .processed }
        if random.chance(parameters.pushFailurePerMille) {
            return random.chance(500) ? .refused(.retryLater, status: 503) : .refused(.retrySoon, status: 0)
        }
        if random.chance(parameters.rateLimitPerMille) { return .refused(.throttled, status: 429) }
        if random.chance(parameters.rejectionPerMille) { return .refused(.rejected, status: 400) }
        if random.chance(parameters.pushLossPerMille) {
            return random.chance(500) ? .lostBeforeDelivery : .lostAfterDelivery
        }
        if random.chance(parameters.deadTokenPerMille), let name = phoneNamesByToken[token] {
            phones[name]?.isTokenDead = true
            phones[name]?.wasMemberThroughout = false
            hadMembershipChange = true
        }
        return .processed
    }

    private func makeSimulatedRecord(of outgoingRecord: OutgoingAudienceRecord, _ worker: SimulatedWorker)
        -> SimulatedRecord
    {
        let record = worker.core.compose(outgoingRecord)
        let value = Array(record.value)
        switch outgoingRecord.kind {
        case .fanout:
            guard let instruction = record.fanoutInstruction else {
                preconditionFailure("a fan-out record has an instruction")
            }
            let key = Array(record.key).reduce(7) { ($0 &* 31 &+ Int($1)) & 0xFFFF }
            return .fanout(partition: key % log.count, SimulatedFanout(value: value, instruction: instruction))
        case .rangeResult: return .rangeResult(String(decoding: value, as: UTF8.self))
        case .commandResult, .commandResultAfterBroadcast: return .commandResult(String(decoding: value, as: UTF8.self))
        case .broadcastResult: return .broadcastResult(String(decoding: value, as: UTF8.self))
        case .invalidation: return .invalidation
        case .start:
            return .start(
                value.isEmpty
                    ? "" : String(decoding: record.key, as: UTF8.self) + String(decoding: value, as: UTF8.self)
            )
        case .memberResult: return .memberResult(command: String(decoding: value, as: UTF8.self))
        }
    }

    // MARK: - Replies

    func deliverReplies(_ worker: SimulatedWorker) {
        while let first = worker.storeCalls.first, first.dueMilliseconds <= nowMilliseconds {
            if nowMilliseconds < storeUnavailableUntilMilliseconds
                || (nowMilliseconds < faultsUntilMilliseconds && random.chance(parameters.storeLossPerMille))
            {
                loseStore(of: worker)
                break
            }
            worker.storeCalls.removeFirst()
            let reply = performStoreCall(first.call, worker)
            reply.withBorrowedBytes {
                worker.core.handleStoreReply(tag: first.call.tag, $0, now: worker.moment(nowMilliseconds))
            }
        }
        let due = worker.activityStoreCalls.filter { $0.dueMilliseconds <= nowMilliseconds }
        worker.activityStoreCalls.removeAll { $0.dueMilliseconds <= nowMilliseconds }
        for call in due {
            if nowMilliseconds < faultsUntilMilliseconds, random.chance(parameters.storeLossPerMille) {
                worker.core.handleActivityStoreFailure(
                    tag: call.tag,
                    .retriableAtOnce,
                    now: worker.moment(nowMilliseconds)
                )
            } else {
                worker.core.handleActivityStoreReply(tag: call.tag, now: worker.moment(nowMilliseconds))
            }
        }
    }

    /// Performs a call in the store's model. If the reply is lost, the caller ignores it.
    @discardableResult
    func performStoreCall(_ call: AudienceCall<[UInt8]>, _ worker: SimulatedWorker) -> AudienceReply<[UInt8]> {
        var call = call
        if case .admit(var admission) = call.operation {
            admission.rangeCount =
                parameters.kind == .ranges
                ? SimulationParameters.rangeCounts[random.number(0...2)] : parameters.rangeCount
            call.operation = .admit(admission)
        }
        let reply = store.perform(call)
        if case .admit(let admission) = call.operation, reply.verdict == .send {
            if let position = commands.firstIndex(where: { $0.version == admission.version }) {
                commands[position].rangeCount = reply.grant?.rangeCount ?? 0
                noteAdmitted(position)
            }
            // Members that join after a start get no state that is older than the start.
            newestAdmittedContent =
                admission.isStart
                ? -1 : max(newestAdmittedContent, commands.first { $0.version == admission.version }?.content ?? -1)
        }
        if case .claim(let range, _) = call.operation {
            worker.claimedCheckpoints[range] = reply.bytes ?? []
            noteClaim(of: range, worker)
        }
        if let trace {
            switch call.operation {
            case .readPage, .readDirectory: break
            case .checkpoint(let range, _, let text):
                let checkpoint = text.withUnsafeBytes { Checkpoint($0) }
                trace(
                    "\(nowMilliseconds % 1_000_000) \(worker.number) checkpoint \(range.index) \(String(describing: checkpoint)) → \(reply.verdict)"
                )
            default:
                trace(
                    "\(nowMilliseconds % 1_000_000) \(worker.number) \(call.operation) → \(reply.verdict) \(String(describing: reply.newestVersion))"
                )
            }
        }
        return reply
    }

    private func loseStore(of worker: SimulatedWorker) {
        let lostCalls = worker.storeCalls
        worker.storeCalls.removeAll()
        let performedCount = random.number(0...lostCalls.count)
        for entry in lostCalls.prefix(performedCount) { performStoreCall(entry.call, worker) }
        for entry in lostCalls {
            let failure =
                random.chance(300)
                ? (random.chance(500) ? StoreFailure.serverRefusesMostCalls : .retriableAfterPause) : .retriableAtOnce
            worker.core.handleStoreFailure(tag: entry.call.tag, failure, now: worker.moment(nowMilliseconds))
        }
    }

    func deliverResponses(_ worker: SimulatedWorker) {
        let due = worker.pushes.filter { $0.dueMilliseconds <= nowMilliseconds }
        worker.pushes.removeAll { $0.dueMilliseconds <= nowMilliseconds }
        for push in due {
            switch push.fate {
            case .processed:
                let isAlive = deliverPush(push, worker)
                respond(to: push, isAlive ? .accepted : .tokenDead, status: isAlive ? 200 : 410, worker)
            case .refused(let disposition, let status):
                if disposition == .throttled, let name = phoneNamesByToken[push.token] {
                    phones[name]?.mayHaveRepeats = true
                }
                respond(to: push, disposition, status: status, worker)
            case .lostBeforeDelivery: respond(to: push, .ambiguous, status: 0, worker)
            case .lostAfterDelivery:
                deliverPush(push, worker, isResponseLost: true)
                if let name = phoneNamesByToken[push.token] { phones[name]?.mayHaveRepeats = true }
                respond(to: push, .ambiguous, status: 0, worker)
            }
        }
    }

    private func respond(
        to push: SimulatedWorker.Push,
        _ disposition: PushResult.Disposition,
        status: UInt16,
        _ worker: SimulatedWorker
    ) {
        trace?("\(nowMilliseconds % 1_000_000) \(worker.number) \(push.token.suffix(3)) \(disposition)")
        worker.core.handlePushResponse(
            tag: push.audiencePush.tag,
            PushResult(
                disposition: disposition,
                status: status,
                reason: UnsafeRawBufferPointer(start: nil, count: 0),
                invalidAtWallMilliseconds: disposition == .tokenDead ? nowMilliseconds : nil,
                sentAtWallMilliseconds: nowMilliseconds,
                responseAtWallMilliseconds: nowMilliseconds
            ),
            now: worker.moment(nowMilliseconds)
        )
    }

    /// Shows a push on its phone, or a broadcast to the subscribers of its channel.
    ///
    /// - Returns: whether the token is alive; true for a broadcast.
    @discardableResult
    func deliverPush(_ push: SimulatedWorker.Push, _ worker: SimulatedWorker, isResponseLost: Bool = false) -> Bool {
        guard !push.audiencePush.isBroadcast else {
            receiveBroadcast(push, isResponseLost: isResponseLost)
            return true
        }
        guard let name = phoneNamesByToken[push.token], var phone = phones[name], !phone.isTokenDead else {
            return false
        }
        let text = String(decoding: push.body, as: UTF8.self)
        guard let timestamp = SimulatedText.number(after: "\"timestamp\":", in: text),
            let content = SimulatedText.number(after: "\"c\":", in: text)
        else {
            violations.append("a push without a timestamp: \(text)")
            return true
        }
        if phone.environment != push.environment { violations.append("\(name) was sent to in the wrong environment") }
        if phone.isDevice { violations.append("\(name.suffix(12)) is a device, and was sent \(content)") }
        let alert = SimulatedText.number(after: "alert-", in: text)
        if PushTag(rawValue: push.audiencePush.tag).isJoiner { phone.hasGotStateOnJoin = true }
        phone.receive(timestamp: Int64(timestamp), content: content, alert: alert)
        checkRepeatedPush(phone, content, worker)
        phone.senders[content, default: []].insert(worker.number)
        phones[name] = phone
        pushCountsByRange[range(of: phone, commands[content]), default: 0] += 1
        trace?(
            "\(nowMilliseconds % 1_000_000) \(worker.number) \(push.token.suffix(3)) shows \(content) alert \(String(describing: alert))"
        )
        return true
    }

    /// Returns the command's range that contains the phone.
    func range(of phone: SimulatedPhone, _ command: Command) -> SegmentRange {
        let count = Int(command.rangeCount)
        let index = Int(phone.location.segment) * count / MemberLocation.segmentCount
        return SegmentRange(index: index, rangeCount: count) ?? SegmentRange(index: 0, rangeCount: 1).unsafelyUnwrapped
    }

    func deliverReports(_ worker: SimulatedWorker) {
        let due = worker.outgoingRecords.filter { $0.dueMilliseconds <= nowMilliseconds }
        worker.outgoingRecords.removeAll { $0.dueMilliseconds <= nowMilliseconds }
        for outgoingRecord in due {
            if let record = outgoingRecord.simulatedRecord { write(record) }
            worker.core.handleDeliveryReport(
                outgoingRecord.outgoingRecord,
                outgoingRecord.isAcknowledged ? .acknowledged : .failed,
                now: worker.moment(nowMilliseconds)
            )
        }
    }

    func write(_ simulatedRecord: SimulatedRecord) {
        switch simulatedRecord {
        case .fanout(let partition, let record):
            // The simulation finishes a range without members at once. A worker would only report that it has none.
            guard record.instruction.channel != nil || hasMembers(record.instruction.range) else {
                return finishRangeWithoutMembers(record)
            }
            log[partition].append(record)
        case .rangeResult(let text):
            trace?("\(nowMilliseconds % 1_000_000) \(text)")
            guard let command = SimulatedText.number(after: "\"command\":\"", in: text),
                let first = SimulatedText.number(after: "\"segments\":[", in: text),
                let last = SimulatedText.number(after: "\"segments\":[\(first),", in: text)
            else {
                return violations.append("a range result names no command: \(text)")
            }
            let length = last - first + 1
            guard let range = SegmentRange(index: first / length, rangeCount: MemberLocation.segmentCount / length)
            else {
                return violations.append("a range result of no range: \(text)")
            }
            // A fan-out record that is in the log twice, or is read again after a crash, may have a second result. This
            // one may lack counts, because the checkpoint with the counts is gone: the store has lost it, or has
            // deleted it after the number of ranges changed. So the first result stays.
            if parameters.kind == .ranges || wipe.count > 0, rangeResults[command]?[range] != nil { return }
            rangeResults[command, default: [:]][range] = text
        case .commandResult(let text):
            trace?("\(nowMilliseconds % 1_000_000) \(text)")
            guard let command = SimulatedText.number(after: "\"command\":\"", in: text) else {
                return violations.append("a result names no command: \(text)")
            }
            commandResults[command] = text
        case .broadcastResult(let text): noteBroadcastResult(text)
        case .invalidation: invalidationCount += 1
        case .start(let text): noteStart(text)
        case .memberResult: memberResultCount += 1
        }
    }

    private func hasMembers(_ range: SegmentRange) -> Bool { range.firstSegment < SimulatedNames.segmentCount }

    private func finishRangeWithoutMembers(_ record: SimulatedFanout) {
        let text = String(decoding: record.value, as: UTF8.self)
        guard let command = SimulatedText.number(after: "\"id\":\"", in: text) else { return }
        let reply = store.perform(
            makeCall(
                .finishRange(
                    record.instruction.range,
                    version: commands[command].version,
                    MemberOutcomeCounts(),
                    ResponseTimes()
                )
            )
        )
        guard let totals = reply.totals else { return }
        let counts = MemberOutcome.allCases.filter { totals[$0] > 0 }.map { "\"\($0.name)\":\(totals[$0])" }
        commandResults[command] = "\"members\":{\(counts.joined(separator: ","))}"
    }
}
