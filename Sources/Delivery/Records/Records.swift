import LiveActivity

/// The records of a lane: their slots, and the blocks with their texts, tokens and bodies.
struct Records: ~Copyable {
    private var slots: Slab<RecordSlot>
    private var arena: Arena
    /// The last body that was made for a command. If the next command has the same `aps` dictionary and `payload`
    /// members, it shares this body.
    private var bodyCache = BodyCache()
    /// The number of records that wait only for acknowledgements (`RecordStage.awaitsAcknowledgements`).
    private(set) var unacknowledgedCount = 0
    /// The number of records that are released commands (`RecordSlot.isReleasedCommand`).
    private(set) var releasedCommandCount = 0

    /// - Parameter chunkBytes: the bytes of one chunk, which the arena allocates at once and cuts into blocks.
    init(limit: Int, chunkBytes: Int = Arena.chunkBytesMax) {
        slots = Slab(limit: limit)
        arena = Arena(chunkBytes: chunkBytes)
    }

    var count: Int { slots.count }
    var limit: Int { slots.limit }
    var isFull: Bool { slots.isFull }
    /// One above the largest index that was ever allocated: the end of a loop over all records.
    var indexBound: UInt32 { slots.indexBound }

    /// Bytes of the blocks in use: texts, tokens, bodies.
    var usedBlockBytes: Int { arena.usedBlockBytes }
    /// Bytes of all chunks that are allocated for blocks, in use or free.
    var allocatedBlockBytes: Int { arena.allocatedChunkBytes }
    mutating func deallocateFreeChunks() { arena.deallocateFreeChunks() }

    /// Bytes of memory for one record without its blocks.
    static var slotBytes: Int { Slab<RecordSlot>.strideBytes }

    func isInUse(_ record: RecordIndex) -> Bool { slots.isInUse(record) }

    subscript(_ record: RecordIndex) -> RecordSlot {
        unsafeAddress { slots.address(of: record) }
        unsafeMutableAddress { slots.mutableAddress(of: record) }
    }

    /// Returns the address of a record's slot, which is valid until the next record is allocated.
    func address(of record: RecordIndex) -> UnsafePointer<RecordSlot> { slots.address(of: record) }

    /// Returns the address of a record's slot for changes, which is valid until the next record is allocated.
    mutating func mutableAddress(of record: RecordIndex) -> UnsafeMutablePointer<RecordSlot> {
        slots.mutableAddress(of: record)
    }

    /// Prefetches the slot of a record that will be read soon. The slot may be free, and the index may be `.null`.
    /// Without this, merging and delivery reports take 1.0 µs for each command of a backlog instead of 0.3 µs
    /// (Measurements.md).
    func prefetch(_ record: RecordIndex) { slots.prefetch(record) }

    /// Allocates the slot of a record. Inlined, so that Swift builds the slot in place and does not copy it.
    @inline(__always) mutating func allocate(_ slot: @autoclosure () -> RecordSlot) -> RecordIndex {
        slots.allocate(slot())
    }

    /// Changes a record's stage, and updates `unacknowledgedCount` (R7). Inlined: where the stage is a constant, the
    /// compiler removes the tests for the other stages.
    @inline(__always)
    mutating func enter(_ record: RecordIndex, _ next: RecordStage) {
        let slot = slots.mutableAddress(of: record)
        let awaitedAcknowledgements = slot.pointee.stage.awaitsAcknowledgements
        slot.pointee.enter(next)
        if next.awaitsAcknowledgements != awaitedAcknowledgements {
            unacknowledgedCount += awaitedAcknowledgements ? -1 : 1
        }
    }

    @inline(__always)
    mutating func enterFinished(_ record: RecordIndex, outcome: Outcome) {
        enter(record, .finished)
        self[record].ending.outcome = outcome
    }

    /// Notes that a registration's record now has the held command that its token has released.
    mutating func noteReleasedCommand(_ record: RecordIndex) {
        precondition(!self[record].isReleasedCommand, "a released command cannot release another one")
        self[record].isReleasedCommand = true
        releasedCommandCount += 1
    }

    /// Notes that a record's released command is finished or dropped. Does nothing if the record has none.
    @inline(__always)
    mutating func noteEndOfReleasedCommand(_ record: RecordIndex) {
        guard self[record].isReleasedCommand else { return }
        self[record].isReleasedCommand = false
        releasedCommandCount -= 1
    }

    /// Frees a record's slot and its blocks. No call, push or outgoing record may name the record any more.
    mutating func free(_ record: RecordIndex) {
        let slot = slots.address(of: record)
        precondition(slot.pointee.stage == .settled || slot.pointee.stage == .dropped)
        noteEndOfReleasedCommand(record)
        arena.free(slot.pointee.texts.block)
        arena.free(slot.pointee.token.block)
        slot.pointee.body.release(to: &arena)
        slots.free(record)
    }

    // MARK: - Blocks with the texts of records

    /// Allocates a block. The caller must free it, unless it becomes the block of a record's texts, which is freed with
    /// the record.
    mutating func allocateBlock(_ count: Int) -> Arena.Block { arena.allocate(count) }

    mutating func free(_ block: Arena.Block) { arena.free(block) }

    /// Frees the blocks of a record's former content.
    ///
    /// - Parameter slot: a copy of the record's slot from before the content was replaced.
    mutating func free(contentOf slot: RecordSlot) {
        arena.free(slot.texts.block)
        arena.free(slot.token.block)
        slot.body.release(to: &arena)
    }

    /// Returns the block for a record's token, and allocates it if the record has none. Called only when a token is
    /// set, because most commands are replaced before Redis names a token.
    private mutating func findOrAllocateTokenBlock(of record: RecordIndex) -> UnsafeMutableRawBufferPointer {
        if slots[record].token.block.isNone { slots[record].token.block = arena.allocate(Limits.tokenDigitsMax) }
        return UnsafeMutableRawBufferPointer(start: slots[record].token.block.base, count: Limits.tokenDigitsMax)
    }

    /// Sets a token that Redis or another command brought. Bytes beyond the maximum length of a token are cut.
    mutating func setToken(of record: RecordIndex, _ bytes: UnsafeRawBufferPointer) {
        let token = UnsafeRawBufferPointer(rebasing: bytes.prefix(Limits.tokenDigitsMax))
        findOrAllocateTokenBlock(of: record).copyMemory(from: token)
        slots[record].token.byteCount = UInt32(token.count)
    }

    /// Sets a token from a producer's record, in lower case: tokens are stored, compared and sent in lower case.
    mutating func setToken(of record: RecordIndex, registering text: TextRange, from value: UnsafeRawBufferPointer) {
        let buffer = findOrAllocateTokenBlock(of: record)
        slots[record].token.byteCount = UInt32(
            DeviceToken.copyLowercased(text.range.bytes(in: value), into: buffer)
        )
    }

    /// Gives the token that a replaced command must register to the command that replaces it. If that command has a
    /// token that was registered at the same time or later, the replaced command's token is discarded instead. Does
    /// nothing if the tokens are of different kinds or devices.
    ///
    /// Known issue (K10): the token is passed in memory only. If the worker dies, the token can be lost until the next
    /// command or registration brings it.
    mutating func passToken(from replaced: RecordIndex, to replacement: RecordIndex) {
        guard self[replaced].token.mustBeRegistered else { return }
        let (replacedSlot, replacementSlot) = (self[replaced], self[replacement])
        guard (replacedSlot.event == .start) == (replacementSlot.event == .start),
            replacedSlot.bytes(replacedSlot.texts.device)
                .hasSameBytes(as: replacementSlot.bytes(replacementSlot.texts.device)),
            replacedSlot.bytes(replacedSlot.texts.attributesType)
                .hasSameBytes(as: replacementSlot.bytes(replacementSlot.texts.attributesType))
        else { return }
        self[replaced].token.mustBeRegistered = false
        self[replaced].ending.isLeftOutOfMetadata = true
        if replacementSlot.token.mustBeRegistered, replacedSlot.token.environment == replacementSlot.token.environment,
            replacedSlot.token.bytes.hasSameBytes(as: replacementSlot.token.bytes)
        {
            // Both commands bring the same token. Let it count as registered at the earlier time.
            self[replacement].token.registeredAtWallMilliseconds = min(
                replacedSlot.token.registeredAtWallMilliseconds,
                replacementSlot.token.registeredAtWallMilliseconds
            )
            return
        }
        if replacementSlot.token.mustBeRegistered,
            replacementSlot.token.registeredAtWallMilliseconds >= replacedSlot.token.registeredAtWallMilliseconds
        {
            return
        }
        self[replacement].token.mustBeRegistered = true
        setToken(of: replacement, replacedSlot.token.bytes)
        self[replacement].token.environment = replacedSlot.token.environment
        self[replacement].token.registeredAtWallMilliseconds = replacedSlot.token.registeredAtWallMilliseconds
    }

    /// Frees the token and body of a record whose slot is still needed. The next command then gets their memory while
    /// it is still in the processor's cache.
    mutating func freeTokenAndBody(of record: RecordIndex) {
        let slot = slots.mutableAddress(of: record)
        arena.free(slot.pointee.token.block)
        slot.pointee.token.block = .none
        slot.pointee.token.byteCount = 0
        slot.pointee.body.release(to: &arena)
        slot.pointee.body = .none
    }

    // MARK: - Bodies of records

    /// Makes a body with a copy of `bytes`, for a dead letter or for a body that will be changed.
    mutating func makeBody(copying bytes: UnsafeRawBufferPointer) -> SharedBody {
        let body = SharedBody(bytes.count, in: &arena)
        body.mutableBuffer.copyMemory(from: bytes)
        return body
    }

    mutating func release(_ body: SharedBody) { body.release(to: &arena) }

    /// Makes a body for a record's command. No other record shares this body.
    mutating func setBody(of record: RecordIndex, to command: Command, from value: UnsafeRawBufferPointer) {
        let body = SharedBody(command.bodyByteCount, in: &arena)
        slots[record].bodyLayout = PushBody.write(command, from: value, into: body.mutableBuffer)
        slots[record].body = body
    }

    /// Makes the body of a record's command. But if the last body that this function made has the same `aps` dictionary
    /// and `payload` members, the record shares that body.
    ///
    /// - Parameter apsDictionaryNumber: the number that `ApsCache` gave to the command's `aps` dictionary.
    mutating func setBody(
        of record: RecordIndex,
        to command: Command,
        from value: UnsafeRawBufferPointer,
        apsDictionaryNumber: UInt64
    ) {
        let last = bodyCache
        if last.apsDictionaryNumber == apsDictionaryNumber,
            last.bodyLayout.payloadMembers.bytes(in: last.body.bytes)
                .hasSameBytes(as: command.payloadMembers.bytes(in: value))
        {
            slots[record].bodyLayout = last.bodyLayout
            slots[record].body = last.body.retain()
            return
        }
        setBody(of: record, to: command, from: value)
        bodyCache.body.release(to: &arena)
        bodyCache = BodyCache(
            body: slots[record].body.retain(),
            bodyLayout: slots[record].bodyLayout,
            apsDictionaryNumber: apsDictionaryNumber
        )
    }

    /// Replaces a record's body by a copy with another command's alert, for which the body must have room.
    ///
    /// - Parameter version: the version of the alert's own command.
    mutating func write(_ alert: UnsafeRawBufferPointer, of version: Version, intoBodyOf record: RecordIndex) {
        let (oldBody, bodyLayout) = (slots[record].body, slots[record].bodyLayout)
        let body = SharedBody(
            PushBody.byteCount(oldBody.bytes, bodyLayout, carryingAlertBytes: alert.count),
            in: &arena
        )
        slots[record].bodyLayout = PushBody.write(oldBody.bytes, bodyLayout, carrying: alert, into: body.mutableBuffer)
        slots[record].alert.sourceVersion = version
        slots[record].body = body
        oldBody.release(to: &arena)
    }

    /// Replaces a record's body by a copy without the alert. Updates the digest if it was set.
    mutating func removeAlert(fromBodyOf record: RecordIndex) {
        let (oldBody, bodyLayout) = (slots[record].body, slots[record].bodyLayout)
        let body = SharedBody(PushBody.byteCountWithoutAlert(oldBody.bytes, bodyLayout), in: &arena)
        slots[record].bodyLayout = PushBody.writeWithoutAlert(oldBody.bytes, bodyLayout, into: body.mutableBuffer)
        slots[record].alert.sourceVersion = nil
        slots[record].body = body
        oldBody.release(to: &arena)
        if slots[record].digest != nil { slots[record].setDigestFromBody() }
    }

    /// Sets the timestamp in a record's body. Does nothing if the body already has this timestamp, so that most bodies
    /// stay shared.
    mutating func setTimestamp(_ timestamp: Int64, inBodyOf record: RecordIndex) {
        let bodyLayout = slots[record].bodyLayout
        guard !PushBody.hasTimestamp(timestamp, in: slots[record].body.bytes, bodyLayout) else { return }
        PushBody.setTimestamp(timestamp, in: copyBodyIfShared(of: record), bodyLayout)
    }

    /// Returns a record's body for changes: its own, or a copy if the body is shared. A shared body must not change,
    /// because another record's push may be sending it.
    private mutating func copyBodyIfShared(of record: RecordIndex) -> UnsafeMutableRawBufferPointer {
        let body = slots[record].body
        guard body.isShared else { return body.mutableBuffer }
        let copy = makeBody(copying: body.bytes)
        slots[record].body = copy
        body.release(to: &arena)
        return copy.mutableBuffer
    }
}
