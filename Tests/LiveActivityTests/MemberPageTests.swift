import Glibc
import LiveActivity
import Numbers
import Testbed
import Testing

@Suite("Pages of members")
struct MemberPageTests {
    @Test func `Every form of id and token is read as it was written`() throws {
        let identifiers = [
            "0c6ef1f2-8f5e-4d0d-9e0c-0b1ff6b2a111", "0C6EF1F2-8F5E-4D0D-9E0C-0B1FF6B2A111",
            "01234567-0123-0123-0123-012345678901", "0c6ef1f2-8F5E-4d0d-9e0c-0b1ff6b2a111", "a", "sixteen letters!",
            String(repeating: "é", count: 128),
        ]
        var entries: [MemberEntry<[UInt8]>] = []
        for (index, identifier) in identifiers.enumerated() {
            var entry = MemberEntry.joining(identifier, token: String(repeating: "a7", count: 4 + index * 16))
            entry.kind = index % 2 == 0 ? .activity : .device
            entry.environment = index % 3 == 0 ? .sandbox : .production
            entry.allowsFrequentUpdates = index % 4 == 0
            entry.supportsChannels = index % 4 == 1
            entry.changedAtMilliseconds = Int64(index) << 45
            entries.append(entry)
        }
        let page = PageBytes(entries)
        let members = try page.members()
        #expect(members.count == entries.count)
        for entry in entries {
            let member = try #require(members.first { $0.identifier == entry.identifier })
            #expect(member == DecodedMember(entry))
        }
        #expect(members.map(\.position) == members.map(\.position).sorted())
    }

    @Test func `Upper-case digits of a token are read in lower case`() throws {
        let page = PageBytes([MemberEntry.joining("a", token: "0123456789ABCDEFabcdef00")])
        #expect(try page.members().first?.token == Array("0123456789abcdefabcdef00".utf8))
    }

    @Test func `Entries of releases without channels say that a device accepts none`() throws {
        var entry = MemberEntry.joining("d", token: "aaaaaaaa")
        entry.kind = .device
        var bytes = PageBytes([entry]).bytes
        // Bit 3 meant frequent updates, and earlier releases set it for every device. In a device's entry, it now means
        // that the device accepts no channels.
        let flagsPosition = MemberPage.Header.byteCount + 6
        bytes[flagsPosition] = MemberEntryFormat.Flag.deviceBit | MemberEntryFormat.Flag.withoutChannelsBit
        #expect(try PageBytes(raw: bytes).members().map(\.supportsChannels) == [false])
        bytes[flagsPosition] = MemberEntryFormat.Flag.deviceBit
        #expect(try PageBytes(raw: bytes).members().map(\.supportsChannels) == [true])
    }

    @Test func `The entry with the latest time counts, and of equal times the last one`() throws {
        func tokens(_ entries: MemberEntry<[UInt8]>...) throws -> [String] {
            try PageBytes(entries).members().map { String(decoding: $0.token, as: UTF8.self) }
        }
        func join(_ token: String, at: Int64) -> MemberEntry<[UInt8]> { .joining("m", token: token, at: at) }
        func leave(at: Int64) -> MemberEntry<[UInt8]> { .leaving("m", at: at) }
        #expect(try tokens(join("aaaaaaaa", at: 1), join("bbbbbbbb", at: 2)) == ["bbbbbbbb"])
        #expect(try tokens(join("bbbbbbbb", at: 2), join("aaaaaaaa", at: 1)) == ["bbbbbbbb"])
        #expect(try tokens(join("aaaaaaaa", at: 1), join("bbbbbbbb", at: 1)) == ["bbbbbbbb"])
        #expect(try tokens(join("aaaaaaaa", at: 1), leave(at: 1)) == [])
        #expect(try tokens(join("aaaaaaaa", at: 1), leave(at: 5), join("bbbbbbbb", at: 4)) == [])
        #expect(try tokens(leave(at: 5), join("bbbbbbbb", at: 6)) == ["bbbbbbbb"])
        #expect(try tokens(join("bbbbbbbb", at: 6), leave(at: 5)) == ["bbbbbbbb"])
        #expect(try tokens(leave(at: 5)) == [])
    }

    /// Former releases stored the times of clocks that are ahead.
    @Test func `An entry whose time is a day ahead does not count against a later entry`() throws {
        let presentMilliseconds: Int64 = 1_700_000_000_000
        let aheadMilliseconds = presentMilliseconds + 86_400_000
        func tokens(_ entries: MemberEntry<[UInt8]>...) throws -> [String] {
            try PageBytes(entries).members(nowMilliseconds: presentMilliseconds)
                .map { String(decoding: $0.token, as: UTF8.self) }
        }
        let early = MemberEntry.joining("m", token: "aaaaaaaa", at: aheadMilliseconds)
        #expect(try tokens(early) == ["aaaaaaaa"])
        #expect(try tokens(early, .leaving("m", at: presentMilliseconds)) == [])
        #expect(try tokens(early, .joining("m", token: "bbbbbbbb", at: presentMilliseconds)) == ["bbbbbbbb"])
        #expect(try tokens(early, .leaving("m", at: aheadMilliseconds - 1)) == ["aaaaaaaa"], "both are ahead")
    }

    @Test func `An activity and a device with the same id, and ids with the same position, are different members`()
        throws
    {
        var device = MemberEntry.joining("m", token: "bbbbbbbb")
        device.kind = .device
        var other = MemberEntry.joining("n", token: "cccccccc")
        other.location.position = device.location.position
        var leaving = MemberEntry.leaving("o", at: 9)
        leaving.location.position = device.location.position
        let page = PageBytes([.joining("m", token: "aaaaaaaa"), device, other, leaving])
        #expect(try page.members().map { $0.token.first } == Array("abc".utf8))
    }

    @Test func `Members outside the page's bounds are left out`() throws {
        var entries: [MemberEntry<[UInt8]>] = []
        for position in [9, 10, 11, 19, 20, 21] as [UInt32] {
            var entry = MemberEntry.joining("m\(position)", token: "aaaaaaaa")
            entry.location.position = position
            entries.append(entry)
        }
        #expect(
            try PageBytes(entries, lowerBound: 10, nextLowerBound: 20).members(isWhole: false).map(\.position) == [
                10, 11, 19,
            ]
        )
        #expect(try PageBytes(entries, lowerBound: 10).members(isWhole: false).map(\.position) == [10, 11, 19, 20, 21])
        #expect(try PageBytes(entries).members().count == 6)
    }

    @Test func `Bytes that do not begin with a header are no page`() {
        let header = PageBytes([]).bytes
        #expect(header.count == MemberPage.Header.byteCount)
        let long = header + [UInt8](repeating: 0, count: AudienceLimits.pageBytesMax)
        for bytes in [
            [], Array(header.dropLast()), [2] + header.dropFirst(),
            PageBytes([], lowerBound: 5, nextLowerBound: 5).bytes, long,
        ] {
            bytes.withUnsafeBytes { #expect(MemberPage($0) == nil) }
        }
        header.withUnsafeBytes { #expect(MemberPage($0) != nil) }
    }

    @Test func `An id or a token that cannot be stored is refused`() {
        func isWritten(_ entry: MemberEntry<[UInt8]>) -> Bool { entry.storedEntry != nil }
        #expect(isWritten(.joining("m", token: "aaaaaaaa")))
        #expect(!isWritten(.joining("", token: "aaaaaaaa")))
        #expect(!isWritten(.joining(String(repeating: "m", count: 257), token: "aaaaaaaa")))
        #expect(!isWritten(.joining("m", token: "")))
        #expect(!isWritten(.joining("m", token: "aaaaaaag")))
        #expect(!isWritten(.joining("m", token: String(repeating: "a", count: 202))))
        var leaving = MemberEntry.leaving("m", at: 1)
        #expect(isWritten(leaving))
        leaving.token = Array("aaaaaaaa".utf8)
        #expect(!isWritten(leaving))
    }

    @Test func `Random pages have the same members as a dictionary`() throws {
        var random = SplitMix64(seed: 16)
        for _ in 0..<300 {
            let identifiers = (0..<random.below(40) + 1).map { _ in random.identifier() }
            let entries = (0..<random.below(100))
                .map { _ -> MemberEntry<[UInt8]> in
                    let at = Int64(random.below(6))
                    let identifier = random.pick(identifiers)
                    guard random.below(4) > 0 else { return .leaving(identifier, at: at) }
                    return .joining(identifier, token: random.token(), at: at)
                }
            var newestEntries: [[UInt8]: MemberEntry<[UInt8]>] = [:]
            for entry in entries
            where (newestEntries[entry.identifier]?.changedAtMilliseconds ?? -1) <= entry.changedAtMilliseconds {
                newestEntries[entry.identifier] = entry
            }
            let expected = newestEntries.values.filter { !$0.isLeaving }.map { DecodedMember($0) }
            let page = PageBytes(entries)
            #expect(try page.members() == expected.sorted { $0.position < $1.position })
        }
    }

    /// Behind each page is memory that cannot be read. Whatever the bytes are, the page has some members or none.
    @Test func `A page of random bytes is never read beyond its end`() throws {
        var random = SplitMix64(seed: 61)
        let reader = try GuardedPageReader()
        for round in 0..<4_000 {
            var bytes: [UInt8]
            if round % 4 == 0 {
                bytes = (0..<random.below(600)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
                if bytes.count > 16 && round % 8 == 0 {
                    bytes.replaceSubrange(0..<16, with: PageBytes([]).bytes)
                }
            } else {
                bytes =
                    PageBytes((0..<random.below(12)).map { _ in .joining(random.identifier(), token: random.token()) })
                    .bytes
                for _ in 0..<random.below(6) where !bytes.isEmpty {
                    let location = random.below(bytes.count)
                    switch random.below(4) {
                    case 0: bytes[location] = UInt8(truncatingIfNeeded: random.next())
                    case 1: bytes.remove(at: location)
                    case 2: bytes.removeLast(bytes.count - location)
                    default: bytes.insert(contentsOf: bytes[location...].prefix(random.below(40)), at: location)
                    }
                }
            }
            reader.read(bytes)
        }
        // This page has as many entries as a page may have, all at the same position in the segment.
        let fullPageEntries = (0..<MemberPage.membersMax)
            .map { index -> MemberEntry<[UInt8]> in
                var entry = MemberEntry.leaving(String(Unicode.Scalar(UInt8(index % 256))), at: 1)
                entry.location.position = 7
                return entry
            }
        reader.read(PageBytes(fullPageEntries).bytes)
        #expect(reader.memberCount > 1_000)
    }
}

/// Reads pages that end where the readable memory ends. So a read beyond a page's end crashes the test.
private final class GuardedPageReader {
    private let memory: UnsafeMutableRawBufferPointer
    private let scratch = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
    private let text = UnsafeMutableRawBufferPointer.allocate(byteCount: 512, alignment: 1)
    private let readableBytes = AudienceLimits.pageBytesMax * 2
    private(set) var memberCount = 0

    init() throws {
        let size = readableBytes + Int(getpagesize())
        let pages = try #require(mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
        memory = UnsafeMutableRawBufferPointer(start: pages, count: size)
        try #require(mprotect(pages + readableBytes, size - readableBytes, PROT_NONE) == 0)
    }

    deinit {
        munmap(memory.baseAddress, memory.count)
        scratch.deallocate()
        text.deallocate()
    }

    func read(_ bytes: [UInt8]) {
        let pageMemory = UnsafeMutableRawBufferPointer(rebasing: memory[(readableBytes - bytes.count)..<readableBytes])
        pageMemory.copyBytes(from: bytes)
        guard let page = MemberPage(UnsafeRawBufferPointer(pageMemory)) else { return }
        let (count, _) = page.members(into: scratch, nowMilliseconds: 0)
        for reference in scratch[..<count] {
            guard let member = page[reference] else {
                Issue.record("a member that is there")
                continue
            }
            memberCount += 1
            #expect(page.contains(member.position) && !member.isLeaving && member.changedAtMilliseconds >= 0)
            #expect(member.writeToken(to: text) == member.token.count * 2)
            #expect((1...Limits.identifierBytesMax).contains(member.writeIdentifier(to: text)))
        }
        // The page's bytes change after a reference was made, so the reference is no longer valid.
        pageMemory.initializeMemory(as: UInt8.self, repeating: 0xFF)
        for reference in scratch[..<count] { #expect(page[reference] == nil) }
    }
}

extension SplitMix64 {
    fileprivate mutating func identifier() -> String {
        switch below(3) {
        case 0: "m\(below(1_000))"
        case 1: "0c6ef1f2-8f5e-4d0d-9e0c-\(String(below(1_000) + 0xA000_0000_0000, radix: 16))"
        default: "0C6EF1F2-8F5E-4D0D-9E0C-\(String(below(1_000) + 0xA000_0000_0000, radix: 16, uppercase: true))"
        }
    }

    fileprivate mutating func token() -> String {
        let digits = (0..<(4 + below(97)) * 2).map { _ in Array("0123456789abcdef")[below(16)] }
        return String(digits)
    }
}

extension MemberEntry<[UInt8]> {
    fileprivate static func joining(_ identifier: String, token: String, at: Int64 = 1) -> Self {
        let bytes = Array(identifier.utf8)
        return MemberEntry(
            location: bytes.withUnsafeBytes { MemberLocation(of: $0) },
            isLeaving: false,
            kind: .activity,
            environment: .production,
            allowsFrequentUpdates: false,
            changedAtMilliseconds: at,
            identifier: bytes,
            token: Array(token.utf8)
        )
    }

    fileprivate static func leaving(_ identifier: String, at: Int64) -> Self {
        var entry = joining(identifier, token: "", at: at)
        entry.isLeaving = true
        return entry
    }

    /// The stored bytes of the member; nil if it cannot be stored.
    fileprivate var storedEntry: [UInt8]? {
        var memory = [UInt8](repeating: 0, count: MemberEntryFormat.bytesMax)
        let count = memory.withUnsafeMutableBytes { memory in
            identifier.withUnsafeBytes { identifier in
                token.withUnsafeBytes { token in
                    let entry = MemberEntry<UnsafeRawBufferPointer>(
                        location: location,
                        isLeaving: isLeaving,
                        kind: kind,
                        environment: environment,
                        allowsFrequentUpdates: allowsFrequentUpdates,
                        supportsChannels: supportsChannels,
                        changedAtMilliseconds: changedAtMilliseconds,
                        identifier: identifier,
                        token: token
                    )
                    return MemberEntryFormat.write(entry, to: memory)
                }
            }
        }
        return count.map { Array(memory[..<$0]) }
    }
}

private struct PageBytes {
    let bytes: [UInt8]

    init(_ entries: [MemberEntry<[UInt8]>], lowerBound: UInt32 = 0, nextLowerBound: UInt32 = 0) {
        func number(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value.littleEndian) { Array($0) } }
        bytes =
            [MemberPage.Header.formatVersion, 0, 0, 0] + number(lowerBound) + number(nextLowerBound) + number(0)
            + entries.flatMap { $0.storedEntry ?? [] }
    }

    init(raw bytes: [UInt8]) { self.bytes = bytes }

    func members(isWhole: Bool = true, nowMilliseconds: Int64 = 0) throws -> [DecodedMember] {
        let scratch = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
        defer { scratch.deallocate() }
        return try bytes.withUnsafeBytes { bytes in
            let page = try #require(MemberPage(bytes))
            let found = page.members(into: scratch, nowMilliseconds: nowMilliseconds)
            #expect(found.isWhole == isWhole)
            return try scratch[..<found.count].map { DecodedMember(try #require(page[$0])) }
        }
    }
}

/// A member with copies of its bytes.
private struct DecodedMember: Equatable {
    var position: UInt32
    var kind: StoreSubjectKind
    var environment: APNsEnvironment
    var allowsFrequentUpdates: Bool
    var supportsChannels: Bool
    var changedAtMilliseconds: Int64
    var identifier: [UInt8]
    var token: [UInt8]

    init(_ member: PageMember) {
        position = member.position
        kind = member.kind
        environment = member.environment
        allowsFrequentUpdates = member.allowsFrequentUpdates
        supportsChannels = member.supportsChannels
        changedAtMilliseconds = member.changedAtMilliseconds
        identifier = Self.written(Limits.identifierBytesMax) { member.writeIdentifier(to: $0) }
        token = Self.written(Limits.tokenDigitsMax) { member.writeToken(to: $0) }
    }

    init(_ entry: MemberEntry<[UInt8]>) {
        position = entry.location.position
        kind = entry.kind
        environment = entry.environment
        allowsFrequentUpdates = entry.allowsFrequentUpdates
        supportsChannels = entry.supportsChannels
        changedAtMilliseconds = min(entry.changedAtMilliseconds, MemberEntryFormat.millisecondsMax)
        identifier = entry.identifier
        token = entry.token
    }

    private static func written(_ bytesMax: Int, _ write: (UnsafeMutableRawBufferPointer) -> Int) -> [UInt8] {
        var memory = [UInt8](repeating: 0, count: bytesMax)
        let count = memory.withUnsafeMutableBytes { write($0) }
        return Array(memory[..<count])
    }
}
