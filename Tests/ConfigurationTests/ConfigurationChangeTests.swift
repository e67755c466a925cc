import Delivery
import LiveActivity
import Testbed
import Testing

@testable import CausewayConfiguration
@testable import CausewayWorker

@Suite("The changes that a running worker applies", .ownThread)
struct ConfigurationChangeTests {
    private func makeChange(from before: String, to after: String) throws -> ConfigurationChange {
        ConfigurationChange(from: try load(smallestFile + before), to: try load(smallestFile + after))
    }

    @Test func `The same text changes nothing`() throws {
        let text = try documentedFile()
        let change = ConfigurationChange(from: try load(text), to: try load(text))
        #expect(change.appliedKeys.isEmpty && change.keysNeedingRestart.isEmpty)
    }

    @Test func `A change of any key is either applied, or reported as one that needs a restart`() throws {
        let runningConfiguration = try load(smallestFile)
        for key in ConfigurationSchema.keys {
            var newConfiguration = runningConfiguration
            guard let value = otherValue(than: key.yamlText(runningConfiguration), for: key.valueKind, of: key.name)
            else {
                Issue.record("\(key.name): no other value")
                continue
            }
            key.assign(&newConfiguration, value)
            #expect(!key.hasSameValue(runningConfiguration, newConfiguration), "\(key.name)")
            let change = ConfigurationChange(from: runningConfiguration, to: newConfiguration)
            #expect(change.appliedKeys == (key.isReloadable ? [key.name] : []), "\(key.name)")
            #expect(change.keysNeedingRestart == (key.isReloadable ? [] : [key.name]), "\(key.name)")
            #expect(
                key.hasSameValue(change.configuration, key.isReloadable ? newConfiguration : runningConfiguration),
                "\(key.name)"
            )
        }
    }

    /// The pages call some keys "Reloadable.". A change of such a key would have no effect if it did not reach the
    /// lanes or the log.
    @Test func `A change of a reloadable key reaches the lanes or the log; a change of any other key does not`() throws
    {
        let runningConfiguration = try load(smallestFile)
        func expectEffect<Root>(
            _ key: SchemaKey<Root>,
            _ name: String,
            of path: WritableKeyPath<WorkerConfiguration, Root>
        ) {
            guard
                let value = otherValue(
                    than: key.yamlText(runningConfiguration[keyPath: path]),
                    for: key.valueKind,
                    of: key.name
                )
            else {
                return
            }
            var newConfiguration = runningConfiguration
            key.assign(&newConfiguration[keyPath: path], value)
            let change = ConfigurationChange(from: runningConfiguration, to: newConfiguration)
            let isUsed =
                reloadedValues(change.configuration) != reloadedValues(runningConfiguration)
                || change.configuration.log.level != runningConfiguration.log.level
            #expect(isUsed == key.isReloadable, "\(name)")
            #expect(change.appliedKeys == (key.isReloadable ? [name] : []), "\(name)")
            #expect(change.keysNeedingRestart == (key.isReloadable ? [] : [name]), "\(name)")
        }
        for key in ConfigurationSchema.keys { expectEffect(key, key.name, of: \.self) }
        // The keys of shapes are left out: a lane gets the content of the shapes file, not its path.
        // `EndToEndTests.ContractTests` tests a change of the content.
        for key in ConfigurationSchema.appSectionKeys where key.name != "policy" && !key.name.hasPrefix("shapes.") {
            expectEffect(key, "apps.match.\(key.name)", of: \.apps[0])
        }
        for key in ConfigurationSchema.policySectionKeys {
            expectEffect(key, "policies.default.\(key.name)", of: \.policies[0])
        }
    }

    /// All values that a reload sends to a lane, as a text.
    private func reloadedValues(_ configuration: WorkerConfiguration) -> String {
        "\(WorkerSetup.makeReloadableSettings(configuration))"
    }

    /// Returns a value that differs from the present one, which is given as its YAML text.
    private func otherValue(than yamlText: String?, for valueKind: ConfigurationValueKind, of name: String)
        -> ConfigurationValue?
    {
        switch valueKind {
        case .text: .text("other")
        case .integer(let range):
            [range.lowerBound, range.upperBound].first { "\($0)" != yamlText }.map { .integer($0) }
        case .choice(let names): names.first { $0 != yamlText }.map { .text($0) }
        case .choices(let names): names.first { "[\($0)]" != yamlText }.map { .choices([$0]) }
        case .texts: .texts(["other"])
        case .properties: .properties([KafkaProperty(name: "a", value: "b")])
        }
    }

    @Test func `Numbers of policies and an app's policy are applied; a new policy is added behind the others`() throws {
        let change = try makeChange(
            from: "policies: {sports: {spacingMilliseconds: 5000}}\n",
            to: """
                policies:
                  a-first: {spacingMilliseconds: 7000}
                  sports: {spacingMilliseconds: 6000, budget: {pushes: 20}}

                """
        )
        #expect(change.configuration.policies.map(\.name) == ["default", "sports", "a-first"])
        #expect(change.configuration.policies.map(\.spacingMilliseconds) == [1_000, 6_000, 7_000])
        #expect(
            change.appliedKeys == [
                "policies.sports.spacingMilliseconds", "policies.sports.budget.pushes", "policies.a-first",
            ]
        )
        #expect(change.keysNeedingRestart.isEmpty)
    }

    @Test func `An app uses a new policy`() throws {
        let newConfiguration =
            smallestFile.replacingRequired("keyFile: key.p8", with: "keyFile: key.p8\n    policy: sports")
            + "policies: {sports: {}}\n"
        let change = ConfigurationChange(from: try load(smallestFile), to: try load(newConfiguration))
        #expect(change.configuration.apps.map(\.policy) == ["sports"])
        #expect(change.appliedKeys == ["policies.sports", "apps.match.policy"])
    }

    @Test func `A removed policy stays with its numbers, and is named`() throws {
        let change = try makeChange(from: "policies: {sports: {spacingMilliseconds: 5000}}\n", to: "")
        #expect(change.configuration.policies.map(\.spacingMilliseconds) == [1_000, 5_000])
        #expect(change.appliedKeys.isEmpty && change.keysNeedingRestart == ["policies.sports"])
    }

    @Test func `A policy beyond the maximum waits for the next start, and so do apps that use it`() throws {
        func policies(_ names: some Sequence<Int>) -> String {
            "policies:\n" + names.map { "  p\($0): {}\n" }.joined()
        }
        let textBefore = smallestFile + policies(1...63)
        let textAfter =
            smallestFile.replacingRequired("keyFile: key.p8", with: "keyFile: key.p8\n    policy: p64")
            + policies(2...64)
        let change = ConfigurationChange(from: try load(textBefore), to: try load(textAfter))
        #expect(change.configuration.policies.count == 64)
        #expect(change.appliedKeys.isEmpty)
        #expect(change.keysNeedingRestart == ["policies.p1", "policies.p64", "apps.match.policy"])
        #expect(change.configuration.apps.map(\.policy) == ["default"])
    }

    @Test func `Added and removed apps, and changed keys of apps, wait for the next start`() throws {
        let extendedFile =
            smallestFile.replacingRequired("keyId: KEY1234567", with: "keyId: KEY7654321")
            + "  ride: {bundleId: r, teamId: TEAM123456, keyId: KEY1234567, keyFile: k}\n"
        let change = ConfigurationChange(from: try load(smallestFile), to: try load(extendedFile))
        #expect(change.keysNeedingRestart == ["apps.match.keyId", "apps.ride"] && change.appliedKeys.isEmpty)
        let reverseChange = ConfigurationChange(from: try load(extendedFile), to: try load(smallestFile))
        #expect(reverseChange.keysNeedingRestart == ["apps.match.keyId", "apps.ride"])
        #expect(reverseChange.configuration.apps.map(\.name) == ["match", "ride"])
    }
}
