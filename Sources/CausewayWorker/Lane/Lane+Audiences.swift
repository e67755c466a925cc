import ActivityStore
import Audiences
import Delivery
import Kafka
import LiveActivity
import Logging
import Observability
import Redis

/// Exchanges commands between the core for single activities, which owns the commands' records, and the core
/// for audiences.
extension Lane {
    /// Passes commands between the two cores in both directions, as far as the core for audiences has room. The lane
    /// carries out both cores' decisions about these commands later in the same iteration.
    func exchangeAudienceCommands() {
        audiences.membersLastCompleteAtMilliseconds = mailbox.membersLastCompleteAtMilliseconds
        delivery.areAudienceMembersComplete = !audiences.mayStoreLackMembers
        // While a partition is being revoked, its commands must not wait. `revoke` has dropped those that waited at its
        // beginning, but others may have begun to wait since: for example, Redis told a command to wait.
        if partitions.isAnyDeliveryPartitionBeingRevoked { dropWaitingAudienceCommands() }
        repeat {
            while audiences.canReceiveCommand, let record = delivery.nextHandover {
                audiences.receiveCommand(IncomingCommand(record, delivery.view(record)))
                delivery.removeNextHandover()
            }
            // The core for audiences gives back the commands that it has finished, for example superseded ones. This
            // makes room for the next commands.
            takeBackAudienceCommands()
        } while audiences.canReceiveCommand && delivery.nextHandover != nil
        audiences.endBatch(now: now)
        takeBackAudienceCommands()
    }

    /// Returns finished commands to the core for single activities, which produces their results.
    private func takeBackAudienceCommands() {
        while let command = audiences.takeReturnedCommand() {
            if command.handoverResult == .fannedOut { countAndTraceFannedOutCommand(command) }
            delivery.endHandover(
                command.record,
                command.handoverResult,
                reason: UnsafeRawBufferPointer(
                    start: command.reason.utf8Start,
                    count: command.reason.utf8CodeUnitCount
                ),
                admittedAtWallMilliseconds: command.admittedAtWallMilliseconds,
                now: now
            )
        }
    }

    /// Tells the core for audiences that Redis may have lost its data, because a connection was lost or is new. The
    /// core then assumes that members may be missing, until `StoreWatch` says that audiences may continue.
    func noteAudienceStoreMayHaveLostData() { audiences.storeMayHaveLostDataAtMilliseconds = now.monotonicMilliseconds }

    /// Notes that a server of Redis is connected. In a cluster, this counts as a possible loss of data until the marks
    /// (R24) are read again: the server may have restarted without its data, and the last reading may have left it out.
    func noteAudienceStoreReady() {
        if audienceStore.hasSeveralServers { noteAudienceStoreMayHaveLostData() }
        requestCallAtIterationEnd()
    }

    /// Passes changes of memberships (a member joins or leaves audiences) to the core for audiences. When the member's
    /// registration may be settled (`takeMemberToSettle`), passes the member back to the core for single activities.
    func exchangeMembershipChanges() {
        while audiences.canReceiveMembershipChange, let change = delivery.nextMembershipChange {
            audiences.receiveMembershipChange(
                IncomingMembershipChange(change, delivery.view(change.member.record)),
                now: now
            )
            delivery.removeNextMembershipChange()
        }
        while let member = audiences.takeMemberToSettle() { delivery.handleNotifiedAudiences(member, now: now) }
    }

    /// Drops the commands to audiences that still wait for their admission, if their partition is being revoked. The
    /// next owner of the partition reads these commands again.
    func dropWaitingAudienceCommands() {
        audiences.dropWaitingCommands { delivery.isRevocationUnderWay($0) }
    }
}

extension IncomingCommand {
    fileprivate init(_ record: RecordIndex, _ view: RecordView) {
        self.init(
            record: record,
            appIndex: UInt16(view.appIndex),
            audience: view.channel.isEmpty ? view.audience : view.channel,
            channelEnvironment: view.channel.isEmpty ? nil : view.environment,
            requestsChannel: view.requestsChannel,
            event: view.event,
            activityTemplate: view.activityTemplate,
            version: view.version,
            priority: view.priority,
            policyIndex: UInt8(view.policyIndex),
            policyName: view.policyName,
            ownExpirationSeconds: view.expirationSeconds,
            staleDateSeconds: view.staleDateSeconds,
            identifier: view.commandIdentifier,
            body: view.body,
            bodyLayout: view.bodyLayout,
            partition: view.sourcePartition,
            offset: view.sourceOffset,
            recordTimestampMilliseconds: view.recordTimestampMilliseconds,
            receivedAtWallMilliseconds: view.receivedAtWallMilliseconds,
            trace: view.trace,
            droppedFields: view.droppedFields
        )
    }
}

extension IncomingMembershipChange {
    fileprivate init(_ change: MembershipChange, _ view: RecordView) {
        self.init(
            member: change.member,
            partition: view.sourcePartition,
            identifier: view.memberIdentifier(change.member.kind),
            joinedAudiences: change.joinedAudiences,
            wasMemberOfAllAudiences: change.wasMemberOfAllAudiences,
            leftAudiences: change.leftAudiences,
            leftAtWallMilliseconds: change.leftAtWallMilliseconds,
            token: view.token,
            environment: view.environment,
            registeredAtWallMilliseconds: view.registeredAtWallMilliseconds,
            allowsFrequentUpdates: view.allowsFrequentUpdates != false,
            supportsChannels: view.supportsChannels,
            shownVersion: view.shownVersion
        )
    }
}

// MARK: - Calls to Redis

extension Lane {
    /// Sends the calls of the core for audiences to Redis, until none waits or the store takes no more.
    func performAudienceStoreCalls() {
        guard audienceStore.isReady else { return }
        while let issueResult = audiences.withNextStoreCall(now: now, { audienceStore.issue($0) }) {
            switch issueResult {
            case .issued:
                audiences.removeNextStoreCall()
            case .notReady where audienceStore.hasSeveralServers:
                audiences.delayNextStoreCallForUnavailableServer(now: now)
            case .notReady, .full, .replicasMissing:
                return
            case .outOfBounds:
                audiences.refuseNextStoreCall(now: now)
            }
        }
    }

    /// Retires tokens in the values of their activities in Redis, after pushes to an audience have shown that the
    /// tokens are dead. While the store takes no calls, these calls stay in the core.
    func performTokenRetirementCalls() {
        guard activityStore.isReady else { return }
        while let issueResult = audiences.withNextActivityStoreCall(now: now, { activityStore.issue($0) }) {
            switch issueResult {
            case .issued:
                audiences.removeNextActivityStoreCall()
            case .notReady where activityStore.hasSeveralServers:
                audiences.delayNextActivityStoreCallForUnavailableServer(now: now)
            case .notReady, .full, .replicasMissing:
                return
            case .outOfBounds:
                audiences.refuseNextActivityStoreCall(now: now)
            }
        }
    }

    func passAudienceStoreReply(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) {
        audiences.handleStoreReply(tag: tag, reply, now: now)
        requestCallAtIterationEnd()
    }

    func passAudienceStoreFailure(tag: UInt64, error: RedisError) {
        metrics.add(.redisErrors, Int(error.code.rawValue))
        let failure = error.storeFailure(hasSeveralServers: audienceStore.hasSeveralServers)
        if failure == .refused {
            writeLog(.redisRefused, ["script": "audience", "reason": "\(error)"])
        } else if error.needsOperatorAction {
            writeLog(.redisError, ["script": "audience", "reason": "\(error)"])
        }
        audiences.handleStoreFailure(tag: tag, failure, now: now)
        requestCallAtIterationEnd()
    }
}

// MARK: - Records for Kafka

extension Lane {
    /// Gives the outgoing records of the core for audiences to the producer, until none waits or the producer's queue
    /// is full.
    func produceOutgoingAudienceRecords() {
        while let outgoingRecord = audiences.nextOutgoingRecord(now: now) {
            let tag = UInt64(number) << ProducerTag.laneShift | outgoingRecord.tag
            switch produce(outgoingRecord, tag: tag) {
            case .queued:
                audiences.removeNextOutgoingRecord(outgoingRecord)
            case .queueFull:
                return
            case .failed(let error):
                audiences.removeNextOutgoingRecord(outgoingRecord)
                let isGivenUp = audiences.handleDeliveryReport(
                    outgoingRecord,
                    Self.makeKafkaReport(of: error.code),
                    now: now
                )
                logUnwrittenRecord(error, to: findTopic(of: outgoingRecord.kind), isGivenUp: isGivenUp)
            }
        }
    }

    private func produce(_ outgoingRecord: OutgoingAudienceRecord, tag: UInt64) -> QueueingResult {
        let record = audiences.compose(outgoingRecord)
        var headers = ProducedHeaders(capacity: FanoutHeaders.headersMax + 2)
        if let instruction = record.fanoutInstruction {
            FanoutHeaders.append(instruction, topic: setup.deliveryConfiguration.commandsTopic, to: &headers)
        }
        DroppedFieldsHeader.append(record.droppedFields, to: &headers)
        let (trace, finishedTrace) = makeTraces(of: outgoingRecord, record)
        trace?.append(to: &headers)
        let queueingResult = setup.producer.produce(
            topic: findTopic(of: outgoingRecord.kind),
            key: record.key,
            value: record.value,
            headers: headers,
            tag: tag
        )
        if case .queued = queueingResult, let finishedTrace { tracer.export(finishedTrace) }
        return queueingResult
    }

    func findTopic(of kind: OutgoingAudienceRecord.Kind) -> ProducerTopic {
        switch kind {
        case .fanout: setup.topics.fanout
        case .start: setup.topics.commands
        case .rangeResult, .commandResult, .memberResult, .broadcastResult, .commandResultAfterBroadcast:
            setup.topics.results
        case .invalidation: setup.topics.invalidations
        }
    }
}
