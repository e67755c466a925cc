import LiveActivity
import Numbers
import Testbed
import Testing

@testable import ActivityStore

/// Compares the model's pages with a dictionary of members. `AudienceDifferentialTests` compares the server
/// with the model.
@Suite struct AudienceModelTests {
    private static let startMilliseconds: Int64 = 1_760_000_000_000

    @Test func `Members are on pages that follow each other, after any number of joins and leaves`() throws {
        var random = SplitMix64(seed: 7)
        var model = AudienceStoreModel(nowMilliseconds: Self.startMilliseconds)
        var members: [[UInt8]: [UInt8]] = [:]
        for number in 0..<8_000 {
            model.nowMilliseconds += Int64(random.below(2_000))
            // All members are in one segment, so that it has many pages.
            let scene = AudienceScene(
                random: &random,
                member: random.below(3_600),
                nowMilliseconds: model.nowMilliseconds
            )
            #expect(model.perform(scene.call(.append(scene.entry))).verdict == .appended)
            members[scene.entry.identifier] = scene.entry.isLeaving ? nil : scene.entry.token
            if number % 1_000 == 999 { try expectMembers(of: model, members) }
        }
        let bounds = AudienceScene.bounds(&model)
        #expect(bounds.count >= 8)
    }

    private func expectMembers(of model: AudienceStoreModel, _ expected: [[UInt8]: [UInt8]]) throws {
        var model = model
        var foundMembers: [[UInt8]: [UInt8]] = [:]
        let bounds = AudienceScene.bounds(&model)
        for (index, bound) in bounds.enumerated() {
            let page = model.perform(AudienceScene.call(.readPage(segment: 0, lowerBound: bound))).bytes ?? []
            #expect(page.count <= PageLimits.unarrangedPageBytesMax)
            let (nextLowerBound, members) = try AudienceScene.members(
                ofPage: page,
                nowMilliseconds: model.nowMilliseconds
            )
            #expect(nextLowerBound == (index + 1 < bounds.count ? bounds[index + 1] : nil))
            foundMembers.merge(members) { first, _ in
                Issue.record("a member on two pages")
                return first
            }
        }
        #expect(foundMembers == expected)
    }

    @Test func `Expired members are removed when there is no room`() throws {
        var random = SplitMix64(seed: 8)
        var model = AudienceStoreModel(nowMilliseconds: Self.startMilliseconds)
        for round in 0..<40 {
            // Each pass of this loop adds other members. So only their age can remove the members of earlier passes.
            for member in 0..<60 {
                let scene = AudienceScene(
                    random: &random,
                    joining: round * 60 + member,
                    nowMilliseconds: model.nowMilliseconds
                )
                _ = model.perform(scene.call(.append(scene.entry)))
            }
            model.nowMilliseconds += PageLimits.activityEntryAgeMillisecondsMax + 1
        }
        #expect(AudienceScene.bounds(&model).count <= 4)
    }

    /// The keeper of channels renews the expiry when it writes a channel, but not when it removes one.
    @Test(arguments: [true, false])
    func `An audience's hash expires 25 hours after its last change or write of a channel`(isWritten: Bool)
        throws
    {
        let identifier = try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        let channel = AudienceChannel(environment: .production, storage: .none, identifier: identifier)
        var model = AudienceStoreModel(nowMilliseconds: Self.startMilliseconds)
        func setChannel(_ channel: AudienceChannel?) {
            model.setChannel(channel, in: .production, of: AudienceScene.audience, app: AudienceScene.app)
        }
        let claim = AudienceScene.call(.claim(try #require(SegmentRange(index: 0, rangeCount: 1)), claim: 1))
        let checkpoint = AudienceScene.call(
            .checkpoint(try #require(SegmentRange(index: 0, rangeCount: 1)), claim: 1, text: [])
        )
        setChannel(channel)
        _ = model.perform(claim)
        model.nowMilliseconds += 24 * 3_600_000
        setChannel(isWritten ? channel : nil)
        model.nowMilliseconds += 24 * 3_600_000
        // The audience's hash has the claim. The verdict `claimLost` means that the hash has expired.
        #expect(model.perform(checkpoint).verdict == (isWritten ? .settled : .claimLost))
    }

    @Test func `A segment is forgotten 25 hours after its last join, and not before`() {
        var random = SplitMix64(seed: 9)
        var model = AudienceStoreModel(nowMilliseconds: Self.startMilliseconds)
        // The second join comes one second less than an hour after the first, so it does not renew the expiry. The
        // segment must still live for 25 hours after the second join.
        for _ in 0..<2 {
            let scene = AudienceScene(random: &random, joining: 1, nowMilliseconds: model.nowMilliseconds)
            _ = model.perform(scene.call(.append(scene.entry)))
            model.nowMilliseconds += 3_599_000
        }
        model.nowMilliseconds += 25 * 3_600_000 - 3_599_000
        #expect(AudienceScene.bounds(&model) == [0])
        model.nowMilliseconds += 2 * 3_600_000
        #expect(AudienceScene.bounds(&model) == [])
    }
}

/// The audience of the tests: its keys, and entries of its members. All members are in segment 0.
struct AudienceScene {
    static let app = Array("com.example.match".utf8)
    static let audience = AudienceDigest(value: 0x7D7B_0102_0304_0506)

    let entry: MemberEntry<[UInt8]>

    /// Makes the entry of a member that joins, or, in one of five cases, of a member that leaves.
    init(random: inout SplitMix64, member: Int, nowMilliseconds: Int64) {
        self.init(random: &random, member: member, isLeaving: random.below(5) == 0, nowMilliseconds: nowMilliseconds)
    }

    init(random: inout SplitMix64, joining member: Int, nowMilliseconds: Int64) {
        self.init(random: &random, member: member, isLeaving: false, nowMilliseconds: nowMilliseconds)
    }

    private init(random: inout SplitMix64, member: Int, isLeaving: Bool, nowMilliseconds: Int64) {
        let identifier = member % 3 == 0 ? "member-\(member)" : "0c6ef1f2-8f5e-4d0d-9e0c-\(100_000_000_000 + member)"
        let bytes = Array(identifier.utf8)
        var location = bytes.withUnsafeBytes { MemberLocation(of: $0) }
        location.segment = 0
        let digits = Array("0123456789abcdef".utf8)
        entry = MemberEntry(
            location: location,
            isLeaving: isLeaving,
            kind: .activity,
            environment: .production,
            allowsFrequentUpdates: false,
            changedAtMilliseconds: nowMilliseconds,
            identifier: bytes,
            token: isLeaving ? [] : (0..<160).map { _ in random.pick(digits) }
        )
    }

    static func call(_ operation: AudienceCall<[UInt8]>.Operation) -> AudienceCall<[UInt8]> {
        AudienceCall(tag: 0, app: app, audience: audience, operation: operation)
    }

    func call(_ operation: AudienceCall<[UInt8]>.Operation) -> AudienceCall<[UInt8]> { Self.call(operation) }

    static func bounds(_ model: inout AudienceStoreModel) -> [UInt32] {
        bounds(ofDirectory: model.perform(call(.readDirectory(segment: 0))).bytes ?? [])
    }

    static func bounds(ofDirectory bytes: [UInt8]) -> [UInt32] {
        stride(from: 0, to: bytes.count, by: 4).map { UInt32(LittleEndian.read(bytes[$0..<($0 + 4)])) }
    }

    static func entries(_ members: Range<Int>, seed: UInt64 = 1, at: Int64) -> [MemberEntry<[UInt8]>] {
        var random = SplitMix64(seed: seed)
        return members.map { AudienceScene(random: &random, joining: $0, nowMilliseconds: at).entry }
    }

    /// Returns the tokens of the entries, by the members' ids.
    static func tokens(_ entries: [MemberEntry<[UInt8]>]) -> [[UInt8]: [UInt8]] {
        Dictionary(entries.map { ($0.identifier, $0.token) }) { $1 }
    }

    /// The keys of segment 0: its first page and its directory.
    static let firstPageKey = pageKey(0)
    static let directoryKey = key([AudienceStoreKey.directoryLetter])

    static func pageKey(_ lowerBound: UInt32) -> [UInt8] {
        let suffix = AudienceStoreKey.pageSuffix(lowerBound)
        return key(suffix.indices.map { suffix[$0] })
    }

    private static func key(_ suffix: [UInt8]) -> [UInt8] {
        var memory = [UInt8](repeating: 0, count: AudienceStoreKey.bytesMax)
        let count = memory.withUnsafeMutableBytes { memory in
            app.withUnsafeBytes { AudienceStoreKey.write(app: $0, audience, segment: 0, to: memory) }
        }
        return Array(memory[..<(count ?? 0)]) + suffix
    }

    /// Returns the lower bound of the next page, and the tokens by the members' ids.
    static func members(
        ofPage bytes: [UInt8],
        nowMilliseconds: Int64
    ) throws -> (nextLowerBound: UInt32?, members: [[UInt8]: [UInt8]]) {
        let scratch = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
        defer { scratch.deallocate() }
        var memory = [UInt8](repeating: 0, count: 256)
        return try bytes.withUnsafeBytes { bytes in
            let page = try #require(MemberPage(bytes))
            let foundMembers = page.members(into: scratch, nowMilliseconds: nowMilliseconds)
            #expect(foundMembers.isWhole)
            var members: [[UInt8]: [UInt8]] = [:]
            for reference in scratch[..<foundMembers.count] {
                let member = try #require(page[reference])
                let identifierBytes = memory.withUnsafeMutableBytes { member.writeIdentifier(to: $0) }
                let identifier = Array(memory[..<identifierBytes])
                let tokenDigits = memory.withUnsafeMutableBytes { member.writeToken(to: $0) }
                members[identifier] = Array(memory[..<tokenDigits])
            }
            return (page.nextLowerBound, members)
        }
    }
}
