// swift-tools-version: 6.2
import PackageDescription

/// The settings of all targets but those with `librarySettings`: Swift 6 language mode, and warnings are errors.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
    // Debug builds, and so all tests, check exclusive access at run time. Release builds do not, because the
    // check costs about 5 % of a lane's time.
    .unsafeFlags(
        ["-cross-module-optimization", "-enforce-exclusivity=unchecked"],
        .when(configuration: .release)
    ),
]

/// The settings of the libraries that app servers and apps import. They have no unsafe flags, because SwiftPM
/// refuses a dependency with such flags.
let librarySettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let package = Package(
    name: "causeway",
    // The platforms of the libraries that app servers and apps import. The programs run on Linux.
    platforms: [.macOS(.v13), .iOS(.v16)],
    products: [
        .executable(name: "causeway", targets: ["causeway"]),
        .executable(name: "causeway-lab", targets: ["CausewayLab"]),
        // The types of the records, for app servers in Swift. The library's target has no dependency and no unsafe
        // flags.
        .library(name: "CausewayRecords", targets: ["CausewayRecords"]),
        // An app's tests use this library to write the shapes of the app's types, for `apps.<name>.shapes`. The
        // library's target has no dependency and no unsafe flags.
        .library(name: "ActivityShapes", targets: ["ActivityShapes"]),
        // The benchmarks and the fuzzer are separate packages and use these libraries.
        .library(name: "LiveActivity", targets: ["LiveActivity"]),
        .library(name: "Delivery", targets: ["Delivery"]),
        .library(name: "Numbers", targets: ["Numbers"]),
        .library(name: "ActivityStore", targets: ["ActivityStore"]),
        .library(name: "Redis", targets: ["Redis"]),
        .library(name: "Reactor", targets: ["Reactor"]),
        .library(name: "APNs", targets: ["APNs"]),
        .library(name: "APNsSimulator", targets: ["APNsSimulator"]),
        .library(name: "CNghttp2", targets: ["CNghttp2"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: ["YAML"]),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .systemLibrary(name: "CRdkafka", pkgConfig: "rdkafka", providers: [.apt(["librdkafka-dev"])]),
        .systemLibrary(name: "CNghttp2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CProcessor"),
        .systemLibrary(name: "CHiredis", pkgConfig: "hiredis", providers: [.apt(["libhiredis-dev"])]),

        .target(name: "Numbers", swiftSettings: settings),
        .target(name: "LiveActivity", dependencies: ["Numbers"], swiftSettings: settings),
        .target(name: "CausewayRecords", swiftSettings: librarySettings),
        .target(name: "ActivityShapes", swiftSettings: librarySettings),
        // Reads and writes whole JSON documents, writes YAML documents, and wraps lines of text.
        .target(name: "Documents", swiftSettings: settings),
        // The description of the records, from which the schemas and the pages are generated.
        .target(name: "RecordReference", dependencies: ["Documents", "LiveActivity"], swiftSettings: settings),
        .target(name: "Delivery", dependencies: ["Numbers", "CProcessor", "LiveActivity"], swiftSettings: settings),
        .target(name: "Audiences", dependencies: ["Numbers", "Delivery", "LiveActivity"], swiftSettings: settings),
        .target(name: "Reactor", dependencies: ["COpenSSL"], swiftSettings: settings),
        .target(name: "HTTP", dependencies: ["Numbers", "Reactor"], swiftSettings: settings),
        .target(name: "Kafka", dependencies: ["CProcessor", "CRdkafka", "Reactor"], swiftSettings: settings),
        .target(name: "Redis", dependencies: ["Numbers", "CHiredis", "Reactor"], swiftSettings: settings),
        .target(
            name: "ActivityStore",
            dependencies: ["Numbers", "LiveActivity", "Reactor", "Redis"],
            resources: [
                .embedInCode("Scripts/admit.lua"), .embedInCode("Scripts/admit-values.lua"),
                .embedInCode("Scripts/admit-settlements.lua"), .embedInCode("Scripts/admit-updates.lua"),
                .embedInCode("Scripts/admit-batches.lua"), .embedInCode("Scripts/admit-activities.lua"),
                .embedInCode("Scripts/admit-registrations.lua"), .embedInCode("Scripts/admit-devices.lua"),
                .embedInCode("Scripts/versions.lua"), .embedInCode("Scripts/digest-lists.lua"),
                .embedInCode("Scripts/registration-times.lua"),
                .embedInCode("Scripts/held-starts.lua"), .embedInCode("Scripts/settle.lua"),
                .embedInCode("Scripts/lifetime.lua"), .embedInCode("Scripts/append.lua"),
                .embedInCode("Scripts/arrange.lua"), .embedInCode("Scripts/audience.lua"),
            ],
            swiftSettings: settings
        ),
        .target(name: "APNs", dependencies: ["Numbers", "COpenSSL", "Documents", "Reactor"], swiftSettings: settings),
        // `Configuration` is the name of swift-configuration's module, and `WorkerConfiguration` is a type in
        // this module, so neither can be the module's name.
        .target(
            name: "CausewayConfiguration",
            dependencies: [
                "Documents", "LiveActivity", "Delivery", "Reactor", "Kafka", "Redis",
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Yams", package: "Yams"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "Observability",
            dependencies: [
                "Numbers",
                "CausewayConfiguration", "Documents", "HTTP", "LiveActivity", "Delivery", "Reactor",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "CausewayWorker",
            dependencies: [
                "Numbers",
                "ActivityStore", "Audiences", "CausewayCommandLine", "CausewayConfiguration", "Documents",
                "Observability", "LiveActivity", "Delivery",
                "Reactor", "Kafka",
                "Redis", "APNs",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "APNsSimulator",
            dependencies: [
                "Numbers",
                "CNghttp2", "COpenSSL", "HTTP", "Reactor", "LiveActivity",
            ],
            swiftSettings: settings
        ),
        // The input and output of both programs. Not named `CommandLine`, because the standard
        // library has such a type.
        .target(
            name: "CausewayCommandLine",
            dependencies: [
                "CausewayConfiguration", "Kafka", "LiveActivity", "Reactor",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "causeway",
            dependencies: [
                "ActivityStore", "Audiences", "CausewayCommandLine", "CausewayConfiguration", "CausewayRecords",
                "CausewayWorker", "COpenSSL", "Documents", "HTTP", "Kafka", "LiveActivity", "Numbers", "Observability",
                "Reactor",
                "RecordReference",
                "Redis",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "CausewayLab",
            dependencies: [
                "Numbers",
                "APNs", "APNsSimulator", "CausewayCommandLine", "CausewayConfiguration", "COpenSSL", "Delivery",
                "Documents", "HTTP", "Kafka", "LiveActivity", "Reactor",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            resources: [
                .embedInCode("LivePage/Resources/page.html"), .embedInCode("LivePage/Resources/page.css"),
                .embedInCode("LivePage/Resources/main.js"), .embedInCode("LivePage/Resources/phonegrid.js"),
                .embedInCode("LivePage/Resources/largephones.js"), .embedInCode("LivePage/Resources/lockscreen.js"),
                .embedInCode("LivePage/Resources/figures.js"), .embedInCode("LivePage/Resources/phonehistory.js"),
            ],
            swiftSettings: settings
        ),

        // Helpers that several test targets share.
        .target(name: "Testbed", dependencies: ["Numbers", "Reactor"], path: "Tests/Testbed", swiftSettings: settings),
        // Slightly changed records for tests, and what Foundation and the schemas say about them.
        .target(
            name: "RecordTestbed",
            dependencies: ["Documents", "LiveActivity", "Numbers", "RecordReference", "Testbed"],
            path: "Tests/RecordTestbed",
            swiftSettings: settings
        ),
        // Starts a redis-server for one test, with a client for it.
        .target(
            name: "RedisTestbed",
            dependencies: ["CHiredis", "COpenSSL", "Reactor", "Testbed"],
            path: "Tests/RedisTestbed",
            swiftSettings: settings
        ),
        .testTarget(name: "NumbersTests", dependencies: ["Numbers"], swiftSettings: settings),
        .testTarget(
            name: "LiveActivityTests",
            dependencies: [
                "Documents", "Numbers", "LiveActivity", "RecordReference", "RecordTestbed", "Testbed",
                .product(name: "Yams", package: "Yams"),
            ],
            exclude: ["Corpus"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "CausewayRecordsTests",
            dependencies: ["CausewayRecords", "CausewayWorker", "LiveActivity"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "ActivityShapesTests",
            dependencies: ["ActivityShapes", "APNsSimulator", "LiveActivity", "Testbed"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "DeliveryTests",
            dependencies: [
                "Numbers", "ActivityStore", "CausewayWorker", "Delivery", "Kafka", "LiveActivity", "Testbed",
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "AudiencesTests",
            dependencies: ["Numbers", "ActivityStore", "Audiences", "Delivery", "LiveActivity", "Testbed"],
            swiftSettings: settings
        ),
        .testTarget(name: "ReactorTests", dependencies: ["Reactor", "COpenSSL", "Testbed"], swiftSettings: settings),
        .testTarget(name: "HTTPTests", dependencies: ["HTTP", "Reactor", "Testbed"], swiftSettings: settings),
        .testTarget(name: "KafkaTests", dependencies: ["Kafka", "CRdkafka", "Testbed"], swiftSettings: settings),
        .testTarget(
            name: "ActivityStoreTests",
            dependencies: [
                "Numbers", "ActivityStore", "CHiredis", "COpenSSL", "LiveActivity", "Reactor", "Redis", "RedisTestbed",
                "Testbed",
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "RedisTests",
            dependencies: ["Numbers", "Redis", "Reactor", "CHiredis", "Testbed"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "RedisTopologyTests",
            dependencies: [
                "ActivityStore", "Redis", "Reactor", "RedisTestbed", "CHiredis", "COpenSSL", "LiveActivity", "Testbed",
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "APNsTests",
            dependencies: [
                "Numbers", "APNs", "APNsSimulator", "Documents", "Reactor", "CNghttp2", "COpenSSL", "Testbed",
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "APNsSimulatorTests",
            dependencies: ["APNsSimulator", "CNghttp2", "COpenSSL", "Reactor", "Testbed"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "ConfigurationTests",
            dependencies: [
                "CausewayConfiguration", "CausewayWorker", "Delivery", "Documents", "Kafka", "LiveActivity", "Redis",
                "Testbed",
                .product(name: "Logging", package: "swift-log"), .product(name: "Yams", package: "Yams"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "ObservabilityTests",
            dependencies: [
                "Numbers",
                "CausewayConfiguration", "HTTP", "Observability", "Reactor", "Testbed",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "CausewayWorkerTests",
            dependencies: [
                "ActivityStore", "APNs", "APNsSimulator", "Audiences", "CausewayConfiguration", "CausewayWorker",
                "Delivery", "Kafka",
                "LiveActivity", "Observability", "Reactor", "Redis", "RedisTestbed", "Testbed",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "CommandLineTests",
            dependencies: [
                "ActivityStore", "Audiences", "causeway", "CausewayCommandLine", "CausewayConfiguration", "CausewayLab",
                "CausewayRecords",
                "Kafka", "LiveActivity", "Reactor", "Redis", "Testbed",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings
        ),
        // Compares the readers of records: the worker, `causeway check`, the schemas and the
        // library `CausewayRecords`.
        .testTarget(
            name: "RecordAgreementTests",
            dependencies: [
                "causeway", "CausewayCommandLine", "CausewayRecords", "CausewayWorker", "Delivery", "Documents",
                "LiveActivity", "Numbers", "RecordReference", "RecordTestbed", "Testbed",
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "CausewayLabTests",
            dependencies: [
                "Numbers", "CausewayCommandLine", "CausewayLab", "Delivery", "Kafka", "LiveActivity", "Testbed",
            ],
            swiftSettings: settings
        ),
        // Runs the fuzz targets on the fuzzer's seeds and findings. The fuzzer itself is a separate package.
        .testTarget(
            name: "FuzzTests",
            dependencies: ["APNs", "CNghttp2", "LiveActivity", "Redis", "Testbed"],
            path: "Fuzz",
            exclude: ["Package.swift", "Cases", "CFuzzer", "Fuzzer"],
            sources: ["Targets", "Tests"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "causeway", "CausewayCommandLine", "CausewayLab", "Delivery", "HTTP", "Kafka", "LiveActivity",
                "Reactor",
                "Testbed",
            ],
            swiftSettings: settings
        ),
    ]
)
